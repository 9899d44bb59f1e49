#include "tests/core/prefix_keys.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

constexpr int kSize = 4;  // tokens per block

std::string text(const std::vector<BlockId>& blocks) {
  std::string text;
  for (const BlockId block : blocks)
    text += (text.empty() ? "" : " ") + std::to_string(index(block));
  return text;
}

// "0 1 + 2 of 7, 9 at 10": blocks, what is matched in part, the near miss.
std::string text(const PrefixMatch& match) {
  std::string line = text(match.blocks);
  if (match.partial != kNoBlock)
    line += " + " + std::to_string(match.partial_tokens) + " of " +
            std::to_string(index(match.partial));
  if (match.differs_at >= 0)
    line += ", " + std::to_string(match.cached_token) + " at " + std::to_string(match.differs_at);
  return line;
}

// An index of 32 blocks that is told of whole requests.
struct Shelf {
  explicit Shelf(PrefixIndexKind kind) : index(make_prefix_index(kind, 32, kSize)) {}

  // The request's blocks from number `position` on become `first`, `first` + 1 and so on; a last
  // one that is not full too. Which were taken, as 1 and 0.
  std::string put(const std::vector<TokenId>& tokens, int first, int position = 0,
                  const std::string& salt = {}) {
    const KnownTokens known(tokens, kSize, salt);
    std::string taken;
    for (; position * kSize < static_cast<int>(tokens.size()); ++position, ++first) {
      const int held = std::min(kSize, static_cast<int>(tokens.size()) - position * kSize);
      taken += index->insert(known.key(), position, held, BlockId{first}) ? '1' : '0';
      index->check_integrity();
    }
    return taken;
  }
  std::string match(const std::vector<TokenId>& tokens, int max_tokens = 1000,
                    const std::string& salt = {}) const {
    return text(index->match(KnownTokens(tokens, kSize, salt).key(), max_tokens));
  }
  void release(std::initializer_list<int> blocks) {
    for (const int block : blocks) index->released(BlockId{block});
    index->check_integrity();
  }
  std::string erase(int block) {
    const std::string lost = text(index->erase(BlockId{block}));
    index->check_integrity();
    return lost;
  }
  // Gives up every released block, in the index's order.
  std::string give_up_all() {
    std::string order;
    while (index->num_released() > 0)
      order += (order.empty() ? "" : " | ") + erase(quire::index(index->victim()));
    return order;
  }

  std::unique_ptr<PrefixIndex> index;
};

Shelf fetch_shelf() {
  QFETCH_GLOBAL(int, kind);
  return Shelf(static_cast<PrefixIndexKind>(kind));
}

}  // namespace

// What both indexes promise.
class TestPrefixIndex : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase_data();
  void matchesWholeBlocksAsFarAsAllowed();
  void keepsTheFirstBlockOfAPrefix();
  void rootsNeverShare();
  void namesTheFirstTokenThatDiffers_data();
  void namesTheFirstTokenThatDiffers();
  void prefersTheNextHigherTokenAmongEquallyClose();
  void aReusedBlockIsNotGivenUp();
  void clearForgetsEverything();
  void unknownBlocksAreNotThere();
};

void TestPrefixIndex::initTestCase_data() {
  QTest::addColumn<int>("kind");
  QTest::addRow("hash") << static_cast<int>(PrefixIndexKind::kHash);
  QTest::addRow("radix") << static_cast<int>(PrefixIndexKind::kRadix);
}

void TestPrefixIndex::matchesWholeBlocksAsFarAsAllowed() {
  Shelf shelf = fetch_shelf();
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  QCOMPARE(shelf.put(tokens, 5), "111");
  const auto blocks = [&](int max_tokens) {
    return text(shelf.index->match(KnownTokens(tokens, kSize).key(), max_tokens).blocks);
  };
  QCOMPARE(blocks(12), "5 6 7");
  QCOMPARE(blocks(1000), "5 6 7");
  QCOMPARE(blocks(11), "5 6");
  QCOMPARE(blocks(4), "5");
  QCOMPARE(blocks(3), "");
  QCOMPARE(shelf.match(tokens, 0), "");
  QCOMPARE(shelf.match(tokens, -1), "");
  QCOMPARE(shelf.match({}), "");
}

void TestPrefixIndex::keepsTheFirstBlockOfAPrefix() {
  Shelf shelf = fetch_shelf();
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0), "11");
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}, 10), "001");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}), "0 1 12");
  QVERIFY(!shelf.index->contains(BlockId{10}));
  QCOMPARE(shelf.index->num_tokens(BlockId{10}), 0);
  QCOMPARE(shelf.index->num_tokens(BlockId{12}), kSize);
  QCOMPARE(shelf.index->size(), 3);
}

void TestPrefixIndex::rootsNeverShare() {
  Shelf shelf = fetch_shelf();
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0, 0, "mine"), "11");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 9}, 8, "yours"), "");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}, 8), "");
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 2, 0, "yours"), "11");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}, 8, "mine"), "0 1");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}, 8, "yours"), "2 3");
  shelf.erase(1);
  shelf.erase(0);
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}, 8, "mine"), "");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}, 8, "yours"), "2 3");
}

void TestPrefixIndex::namesTheFirstTokenThatDiffers_data() {
  QTest::addColumn<std::vector<int>>("tokens");
  QTest::addColumn<int>("max_tokens");
  QTest::addColumn<int>("differs_at");
  QTest::addColumn<int>("cached_token");
  const auto row = [](const char* name, std::vector<int> tokens, int max_tokens, int differs_at,
                      int cached_token) {
    QTest::addRow("%s", name) << std::move(tokens) << max_tokens << differs_at << cached_token;
  };
  // Cached: 1..8 and 1 2 3 4 50 60.. behind the first block.
  row("inside a block", {1, 2, 3, 4, 5, 6, 9, 8}, 8, 6, 7);
  row("first of a block", {1, 2, 3, 4, 9, 6, 7, 8}, 8, 4, 50);
  row("below all", {1, 2, 3, 4, 4, 6, 7, 8}, 8, 4, 5);
  row("above all", {1, 2, 3, 4, 99}, 5, 4, 50);
  row("in the first block", {1, 2, 9, 4, 5, 6, 7, 8}, 8, 2, 3);
  row("first of all", {9, 2, 3, 4}, 4, 0, 1);
  row("in a block the request has not filled", {1, 2, 3, 4, 5, 9}, 6, 5, 6);
  row("cut before it", {1, 2, 3, 4, 5, 6, 9, 8}, 6, -1, -1);
  row("cut right behind it", {1, 2, 3, 4, 5, 6, 9, 8}, 7, 6, 7);
  row("cut at a block's end", {1, 2, 3, 4, 9}, 4, -1, -1);
  row("request ends inside a block", {1, 2, 3, 4, 5, 6}, 100, -1, -1);
  row("request ends with a block", {1, 2, 3, 4}, 100, -1, -1);
  row("nothing cached goes on", {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}, 100, -1, -1);
  row("nothing asked for", {9}, 0, -1, -1);
}

void TestPrefixIndex::namesTheFirstTokenThatDiffers() {
  QFETCH(std::vector<int>, tokens);
  QFETCH(int, max_tokens);
  Shelf shelf = fetch_shelf();
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0), "11");
  QCOMPARE(shelf.put({1, 2, 3, 4, 50, 60, 70, 80}, 2, 1), "1");
  const PrefixMatch match = shelf.index->match(KnownTokens(tokens, kSize).key(), max_tokens);
  QTEST(match.differs_at, "differs_at");
  QTEST(match.cached_token, "cached_token");
}

void TestPrefixIndex::prefersTheNextHigherTokenAmongEquallyClose() {
  Shelf shelf = fetch_shelf();
  int block = 0;
  for (const TokenId token : {7, 3, 5, 9}) shelf.put({1, 1, token, 1}, block++);
  const auto cached = [&](TokenId token) {
    return shelf.index->match(KnownTokens({1, 1, token, 1}, kSize).key(), 4).cached_token;
  };
  QCOMPARE(cached(2), 3);
  QCOMPARE(cached(6), 7);
  QCOMPARE(cached(8), 9);
  QCOMPARE(cached(10), 9);
}

void TestPrefixIndex::aReusedBlockIsNotGivenUp() {
  Shelf shelf = fetch_shelf();
  shelf.put({1, 2, 3, 4}, 0);
  shelf.put({5, 6, 7, 8}, 1);
  QCOMPARE(shelf.index->victim(), kNoBlock);
  shelf.release({0, 1});
  QCOMPARE(shelf.index->num_released(), 2);
  QCOMPARE(shelf.index->victim(), BlockId{0});
  shelf.index->reused(BlockId{0});
  shelf.index->check_integrity();
  QCOMPARE(shelf.index->victim(), BlockId{1});
  shelf.release({0});
  QCOMPARE(shelf.give_up_all(), "1 | 0");
  QCOMPARE(shelf.index->size(), 0);
  QCOMPARE(shelf.index->victim(), kNoBlock);
}

void TestPrefixIndex::clearForgetsEverything() {
  Shelf shelf = fetch_shelf();
  shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  shelf.release({1});
  shelf.index->clear();
  shelf.index->check_integrity();
  QCOMPARE(shelf.index->size(), 0);
  QCOMPARE(shelf.index->num_released(), 0);
  QCOMPARE(shelf.index->victim(), kNoBlock);
  QCOMPARE(shelf.index->num_tokens(BlockId{0}), 0);
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 9}), "");
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 1), "11");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}), "1 2");
}

void TestPrefixIndex::unknownBlocksAreNotThere() {
  Shelf shelf = fetch_shelf();
  QVERIFY(!shelf.index->contains(BlockId{3}));
  QCOMPARE(shelf.index->num_tokens(BlockId{3}), 0);
  QCOMPARE(shelf.erase(3), "");
}

class TestHashChainIndex : public QObject {
  Q_OBJECT
 private slots:
  void givesUpInTheOrderOfRelease();
  void blocksOutliveThoseBeforeThem();
};

void TestHashChainIndex::givesUpInTheOrderOfRelease() {
  Shelf shelf(PrefixIndexKind::kHash);
  shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  shelf.put({9, 9, 9, 9}, 2);
  shelf.release({0, 2, 1});
  QCOMPARE(shelf.give_up_all(), "0 | 2 | 1");
}

void TestHashChainIndex::blocksOutliveThoseBeforeThem() {
  Shelf shelf(PrefixIndexKind::kHash);
  shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  QCOMPARE(shelf.erase(0), "0");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}), "");
  QCOMPARE(shelf.put({1, 2, 3, 4}, 3), "1");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}), "3 1");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 9, 9}), "3, 7 at 6");
}

class TestRadixIndex : public QObject {
  Q_OBJECT
 private slots:
  void needsWhatComesBefore();
  void matchesPartOfTheClosestBlock();
  void aBlockThatIsNotFullIsALeafMatchedInPart();
  void aBlockThatIsNotFullIsRefusedWhereOneBeginsWithIt();
  void aSupersededBlockIsGivenUpFirst();
  void erasingABlockErasesWhatItLeadsTo();
  void givesUpTheLeastRecentlyReleasedLeaf();
  void givesUpInnerBlocksWhenOnlyTheyAreReleased();
  void chainsOfAnyDepthAreErased();
};

void TestRadixIndex::needsWhatComesBefore() {
  Shelf shelf(PrefixIndexKind::kRadix);
  QVERIFY(shelf.index->partial_blocks());
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1), "00");
  QCOMPARE(shelf.index->size(), 0);
  QCOMPARE(shelf.put({1, 2, 3, 4}, 0), "1");
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8, 9}, 1, 1), "11");
  QCOMPARE(shelf.index->num_tokens(BlockId{2}), 1);
}

void TestRadixIndex::matchesPartOfTheClosestBlock() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({1, 2, 3, 4, 5, 6, 7, 8}, 0);
  shelf.put({1, 2, 3, 4, 5, 6, 1, 1}, 2, 1);
  shelf.put({1, 2, 3, 4, 5, 9, 9, 9}, 3, 1);
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 9}), "0 + 3 of 1, 8 at 7");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 2, 9}), "0 + 2 of 1, 7 at 6");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 7}), "0 + 1 of 3, 9 at 5");
  QCOMPARE(shelf.match({1, 2, 3, 4, 6}), "0, 5 at 4");
  QCOMPARE(shelf.match({1, 2, 9}), " + 2 of 0, 3 at 2");
  // As far as asked for, and no near miss then.
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 9, 9, 9}, 7), "0 + 3 of 3");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 9, 9, 9}, 4), "0");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 9, 9, 9}, 3), " + 3 of 0");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 9}), "0 + 2 of 3");
}

void TestRadixIndex::aBlockThatIsNotFullIsALeafMatchedInPart() {
  Shelf shelf(PrefixIndexKind::kRadix);
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6}, 0), "11");
  QCOMPARE(shelf.index->num_tokens(BlockId{1}), 2);
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6}), "0 + 2 of 1");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8}), "0 + 2 of 1");  // it just ends there
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 7, 7, 8}), "0 + 1 of 1, 6 at 5");
  QCOMPARE(shelf.put({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}, 3, 2), "0");
  QCOMPARE(shelf.match({1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}), "0 + 2 of 1");
}

void TestRadixIndex::aBlockThatIsNotFullIsRefusedWhereOneBeginsWithIt() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({1, 2, 3, 4}, 0);
  QCOMPARE(shelf.put({1, 2}, 1), "0");
  QCOMPARE(shelf.put({1, 3}, 1), "1");
  QCOMPARE(shelf.put({1, 3}, 2), "0");
  QCOMPARE(shelf.put({1}, 2), "0");
  QCOMPARE(shelf.put({1, 3, 4}, 2), "1");  // longer
  QCOMPARE(shelf.index->size(), 3);
}

void TestRadixIndex::aSupersededBlockIsGivenUpFirst() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({8, 8}, 9);
  shelf.put({1, 2}, 0);
  shelf.release({9, 0});
  QCOMPARE(shelf.put({1, 2, 3}, 1), "1");  // beside it
  QCOMPARE(shelf.index->victim(), BlockId{0});
  QCOMPARE(shelf.match({1, 2, 5, 5}), " + 2 of 1, 3 at 2");
  QCOMPARE(shelf.put({1, 2, 3, 4}, 2), "1");  // before that one is released
  shelf.release({1, 2});
  QCOMPARE(shelf.give_up_all(), "0 | 1 | 9 | 2");
}

void TestRadixIndex::erasingABlockErasesWhatItLeadsTo() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4}, 0);
  shelf.put({1, 1, 1, 1, 2, 2, 2, 2, 5, 5, 5, 5}, 4, 2);
  shelf.put({1, 1, 1, 1, 6, 6, 6, 6}, 5, 1);
  shelf.release({3, 2, 1, 5});
  QCOMPARE(shelf.index->num_released(), 4);
  QCOMPARE(shelf.erase(1), "1 2 4 3");
  QCOMPARE(shelf.index->num_released(), 1);
  QCOMPARE(shelf.index->size(), 2);
  QCOMPARE(shelf.match({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}), "0, 6 at 4");
  QCOMPARE(shelf.index->num_tokens(BlockId{4}), 0);
  QCOMPARE(shelf.put({1, 1, 1, 1, 2, 2, 2, 2}, 4, 1), "1");
  QCOMPARE(shelf.erase(0), "0 4 5");
  QCOMPARE(shelf.index->size(), 0);
}

void TestRadixIndex::givesUpTheLeastRecentlyReleasedLeaf() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, 0);
  shelf.put({1, 1, 1, 1, 4, 4, 4, 4}, 3, 1);
  shelf.put({9, 9, 9, 9}, 4);
  shelf.release({0, 1, 4, 2, 3});  // prefixes first: they have to wait for what they lead to
  QCOMPARE(shelf.give_up_all(), "4 | 2 | 1 | 3 | 0");
}

void TestRadixIndex::givesUpInnerBlocksWhenOnlyTheyAreReleased() {
  Shelf shelf(PrefixIndexKind::kRadix);
  shelf.put({1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}, 0);
  shelf.release({1, 0});
  QCOMPARE(shelf.index->num_released(), 2);
  QCOMPARE(shelf.give_up_all(), "1 2 | 0");
}

void TestRadixIndex::chainsOfAnyDepthAreErased() {
  constexpr int kDepth = 50000;
  const auto index = make_radix_index(kDepth, 1);
  const KnownTokens known(std::vector<TokenId>(kDepth, 7), 1);
  for (int i = 0; i < kDepth; ++i) QVERIFY(index->insert(known.key(), i, 1, BlockId{i}));
  index->check_integrity();
  QCOMPARE(index->match(known.key(), kDepth).blocks.size(), std::size_t{kDepth});
  QCOMPARE(index->erase(BlockId{0}).size(), std::size_t{kDepth});
  index->check_integrity();
  QCOMPARE(index->size(), 0);
}

QUIRE_TEST(TestPrefixIndex)
QUIRE_TEST(TestHashChainIndex)
QUIRE_TEST(TestRadixIndex)
#include "tst_prefix_index.moc"
