#include <map>

#include "tests/core/prefix_keys.h"
#include "tests/support/dice.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

using Tokens = std::vector<TokenId>;

bool begins_with(const Tokens& tokens, const Tokens& prefix) {
  return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

Tokens first_of(const Tokens& tokens, int count) {
  return {tokens.begin(), tokens.begin() + count};
}

// Requests that go on from recent ones, or branch off them at any token.
class Traffic {
 public:
  Traffic(Dice& dice, int block_size, int max_length)
      : dice_(dice), block_size_(block_size), max_length_(max_length) {}

  KnownTokens next() {
    Tokens tokens;
    if (!earlier_.empty() && dice_.chance(85)) {
      const Tokens& other =
          earlier_[static_cast<std::size_t>(dice_(0, static_cast<int>(earlier_.size()) - 1))];
      const int whole = static_cast<int>(other.size());
      tokens = first_of(other, dice_.chance(40) ? whole : dice_(0, whole));
    }
    const int length = dice_(static_cast<int>(tokens.size()), max_length_);
    while (tokens.empty() || static_cast<int>(tokens.size()) < length)
      tokens.push_back(dice_(0, 3));
    earlier_.push_back(tokens);
    if (earlier_.size() > kRemembered) earlier_.erase(earlier_.begin());
    return KnownTokens(std::move(tokens), block_size_, dice_.chance(15) ? "other" : "");
  }

 private:
  static constexpr std::size_t kRemembered = 12;
  Dice& dice_;
  const int block_size_, max_length_;
  std::vector<Tokens> earlier_;
};

// An index as one reads its description: a list of what each block stands for, searched whole.
class Model {
 public:
  Model(PrefixIndexKind kind, int block_size)
      : radix_(kind == PrefixIndexKind::kRadix), block_size_(block_size) {}

  struct Answer {
    std::vector<BlockId> blocks;
    std::vector<BlockId> closest;  // equally good for a partial match
    int common = 0;                // tokens of those that come next
    TokenId cached_token = -1;
    int differs_at = -1;
  };

  Answer match(const KnownTokens& known, int max_tokens) const {
    const int limit = std::clamp(max_tokens, 0, static_cast<int>(known.tokens.size()));
    Answer answer;
    int end = block_size_;
    for (; end <= limit; end += block_size_) {
      const BlockId block = holder(known, end);
      if (block == kNoBlock) break;
      answer.blocks.push_back(block);
    }
    const int begin = end - block_size_;
    if (begin >= limit) return answer;
    const Tokens before = first_of(known.tokens, begin);
    const Tokens wanted = first_of(known.tokens, std::min(limit, end));
    for (const auto& [block, held] : held_) {
      if (!continues(held, before, known.salt)) continue;
      const auto ends =
          std::mismatch(wanted.begin(), wanted.end(), held.path.begin(), held.path.end());
      const int common = static_cast<int>(ends.first - wanted.begin()) - begin;
      if (common > answer.common) answer.closest.clear();
      if (common < answer.common) continue;
      answer.common = common;
      answer.closest.push_back(block);
    }
    find_difference(wanted, begin + answer.common, answer);
    return answer;
  }

  bool insert(const KnownTokens& known, int position, int num_tokens, BlockId block) {
    const int begin = position * block_size_;
    const Tokens path = first_of(known.tokens, begin + num_tokens);
    const Tokens before = first_of(known.tokens, begin);
    if (radix_ && begin > 0 && holder(known, begin) == kNoBlock) return false;
    for (const auto& [other, held] : held_)
      if (continues(held, before, known.salt) && begins_with(held.path, path)) return false;
    for (auto& [other, held] : held_)
      if (continues(held, before, known.salt) && begins_with(path, held.path))
        held.superseded = true;
    held_[block] = {path, known.salt, begin, false, 0, false};
    return true;
  }

  std::vector<BlockId> erase(BlockId block) {
    std::vector<BlockId> lost{block};
    const Held gone = held_.at(block);
    if (radix_)
      for (const auto& [other, held] : held_)
        if (other != block && leads_to(gone, held)) lost.push_back(other);
    for (const BlockId each : lost) held_.erase(each);
    return lost;
  }

  void released(BlockId block) {
    held_.at(block).released = true;
    held_.at(block).released_at = ++clock_;
  }
  void reused(BlockId block) { held_.at(block).released = false; }
  void clear() { held_.clear(); }

  // The hash index: who waits longest. The tree: the same among the leaves, superseded ones (which
  // are interchangeable but for their number) before the others; without leaves among all.
  BlockId victim() const {
    BlockId leaf = kNoBlock, any = kNoBlock;
    for (const auto& [block, held] : held_) {
      if (!held.released) continue;
      if (any == kNoBlock || rank(held) < rank(held_.at(any))) any = block;
      if (radix_ && has_children(held)) continue;
      if (leaf == kNoBlock || rank(held) < rank(held_.at(leaf))) leaf = block;
    }
    return leaf == kNoBlock ? any : leaf;
  }

  bool has_children(BlockId block) const { return has_children(held_.at(block)); }
  bool superseded(BlockId block) const { return held_.at(block).superseded; }
  bool contains(BlockId block) const { return held_.contains(block); }
  int num_tokens(BlockId block) const {
    return contains(block) ? static_cast<int>(held_.at(block).path.size()) - held_.at(block).begin
                           : 0;
  }
  int size() const { return static_cast<int>(held_.size()); }
  int num_released() const {
    return static_cast<int>(
        std::ranges::count_if(held_, [](const auto& entry) { return entry.second.released; }));
  }

 private:
  struct Held {
    Tokens path;  // all tokens up to the block's end
    std::string salt;
    int begin = 0;  // of the block's own
    bool released = false;
    std::uint64_t released_at = 0;
    bool superseded = false;
  };

  std::uint64_t rank(const Held& held) const {
    return radix_ && held.superseded ? 0 : held.released_at;
  }
  bool continues(const Held& held, const Tokens& before, const std::string& salt) const {
    return held.salt == salt && held.begin == static_cast<int>(before.size()) &&
           begins_with(held.path, before);
  }
  bool leads_to(const Held& from, const Held& to) const {
    return from.salt == to.salt && to.begin >= static_cast<int>(from.path.size()) &&
           static_cast<int>(from.path.size()) == from.begin + block_size_ &&
           begins_with(to.path, from.path);
  }
  bool has_children(const Held& held) const {
    return std::ranges::any_of(held_,
                               [&](const auto& entry) { return leads_to(held, entry.second); });
  }
  BlockId holder(const KnownTokens& known, int end) const {
    for (const auto& [block, held] : held_)
      if (held.salt == known.salt && static_cast<int>(held.path.size()) == end &&
          held.begin == end - block_size_ && begins_with(known.tokens, held.path))
        return block;
    return kNoBlock;
  }
  void find_difference(const Tokens& wanted, int at, Answer& answer) const {
    if (at >= static_cast<int>(wanted.size())) return;
    const TokenId ours = wanted[static_cast<std::size_t>(at)];
    for (const BlockId block : answer.closest) {
      const Tokens& path = held_.at(block).path;
      if (static_cast<int>(path.size()) <= at) continue;
      const TokenId theirs = path[static_cast<std::size_t>(at)], best = answer.cached_token;
      const bool better =
          answer.differs_at < 0 || (best < ours ? theirs > best : theirs > ours && theirs < best);
      if (better) answer.cached_token = theirs;
      answer.differs_at = at;
    }
  }

  const bool radix_;
  const int block_size_;
  std::map<BlockId, Held> held_;
  std::uint64_t clock_ = 0;
};

struct Seen {
  int hits = 0, partial = 0, near_misses = 0, refused = 0, evicted = 0, inner = 0, superseded = 0,
      lost_in_use = 0;
};

// Does with an index and its model what a pool of blocks does with an index, and compares all they
// say.
class Pool {
 public:
  Pool(PrefixIndexKind kind, int num_blocks, int block_size, Dice& dice)
      : dice_(dice),
        block_size_(block_size),
        index_(make_prefix_index(kind, num_blocks, block_size)),
        model_(kind, block_size),
        references_(static_cast<std::size_t>(num_blocks), 0) {
    for (int b = num_blocks - 1; b >= 0; --b) free_.push_back(BlockId{b});
  }

  void step(Traffic& traffic) {
    if (dice_.chance(55))
      admit(traffic.next());
    else if (!holders_.empty() && dice_.chance(90))
      finish(static_cast<std::size_t>(dice_(0, static_cast<int>(holders_.size()) - 1)));
    else if (dice_.chance(60))
      forget(BlockId{dice_(0, static_cast<int>(references_.size()) - 1)});
    else if (dice_.chance(5))
      clear();
    compare();
  }
  const Seen& seen() const { return seen_; }

 private:
  struct Holder {
    KnownTokens known;
    std::vector<BlockId> table;
  };
  int& references(BlockId block) { return references_[static_cast<std::size_t>(index(block))]; }
  bool idle(BlockId block) const {
    return references_[static_cast<std::size_t>(index(block))] == 0;
  }

  std::vector<BlockId> match(const KnownTokens& known, int max_tokens) {
    const PrefixMatch got = index_->match(known.key(), max_tokens);
    const Model::Answer wanted = model_.match(known, max_tokens);
    QUIRE_CHECK(got.blocks == wanted.blocks);
    QUIRE_CHECK(got.differs_at == wanted.differs_at, got.differs_at, wanted.differs_at);
    QUIRE_CHECK(got.cached_token == wanted.cached_token, got.cached_token, wanted.cached_token);
    const bool partial = index_->partial_blocks() && wanted.common > 0;
    QUIRE_CHECK((got.partial != kNoBlock) == partial, wanted.common);
    QUIRE_CHECK(got.partial_tokens == (partial ? wanted.common : 0), got.partial_tokens);
    if (partial)
      QUIRE_CHECK(std::ranges::find(wanted.closest, got.partial) != wanted.closest.end());
    seen_.hits += static_cast<int>(got.blocks.size());
    seen_.partial += partial ? 1 : 0;
    seen_.near_misses += got.differs_at >= 0 ? 1 : 0;
    return got.blocks;
  }

  void admit(KnownTokens known) {
    const int length = static_cast<int>(known.tokens.size());
    const int needed = (length + block_size_ - 1) / block_size_;
    std::vector<BlockId> table = match(known, dice_.chance(50) ? length - 1 : dice_(0, length));
    const auto reclaimed = std::ranges::count_if(table, [&](BlockId b) { return idle(b); });
    const int available = static_cast<int>(free_.size()) + index_->num_released();
    if (needed - static_cast<int>(table.size()) + reclaimed > available) return;
    for (const BlockId block : table)
      if (references(block)++ == 0) {
        index_->reused(block);
        model_.reused(block);
      }
    while (static_cast<int>(table.size()) < needed) {
      if (free_.empty()) evict();
      table.push_back(free_.back());
      free_.pop_back();
      references(table.back()) = 1;
    }
    for (int i = 0; (i + 1) * block_size_ <= length; ++i)
      if (!index_->contains(table[static_cast<std::size_t>(i)]))
        insert(known, table, i, block_size_);
    holders_.push_back({std::move(known), std::move(table)});
  }

  void insert(const KnownTokens& known, const std::vector<BlockId>& table, int position,
              int num_tokens) {
    const BlockId block = table[static_cast<std::size_t>(position)];
    const bool taken = index_->insert(known.key(), position, num_tokens, block);
    const bool wanted = model_.insert(known, position, num_tokens, block);
    QUIRE_CHECK(taken == wanted, taken, position, num_tokens);
    if (!taken) ++seen_.refused;
  }

  void finish(std::size_t which) {
    const Holder holder = holders_[which];
    holders_.erase(holders_.begin() + static_cast<std::ptrdiff_t>(which));
    const int tail = static_cast<int>(holder.known.tokens.size()) % block_size_;
    if (index_->partial_blocks() && tail > 0 && dice_.chance(80))
      insert(holder.known, holder.table, static_cast<int>(holder.table.size()) - 1, tail);
    for (auto block = holder.table.rbegin(); block != holder.table.rend(); ++block)
      if (--references(*block) == 0) {
        if (index_->contains(*block)) {
          index_->released(*block);
          model_.released(*block);
        } else {
          free_.push_back(*block);
        }
      }
  }

  void evict() {
    const BlockId victim = index_->victim();
    QUIRE_CHECK(victim == model_.victim(), index(victim));
    ++seen_.evicted;
    seen_.inner += model_.has_children(victim) ? 1 : 0;
    seen_.superseded += model_.superseded(victim) ? 1 : 0;
    forget(victim);
  }

  void forget(BlockId block) {
    QUIRE_CHECK(index_->contains(block) == model_.contains(block), index(block));
    std::vector<BlockId> lost = index_->erase(block);
    if (!model_.contains(block)) {
      QUIRE_CHECK(lost.empty());
      return;
    }
    QUIRE_CHECK(lost.front() == block, index(block));
    for (const BlockId gone : lost) {
      if (idle(gone))
        free_.push_back(gone);
      else
        ++seen_.lost_in_use;
    }
    std::vector<BlockId> wanted = model_.erase(block);
    std::ranges::sort(lost);
    std::ranges::sort(wanted);
    QUIRE_CHECK(lost == wanted, index(block));
  }

  void clear() {
    for (int b = 0; b < static_cast<int>(references_.size()); ++b)
      if (index_->contains(BlockId{b}) && idle(BlockId{b})) free_.push_back(BlockId{b});
    index_->clear();
    model_.clear();
  }

  void compare() const {
    index_->check_integrity();
    QUIRE_CHECK(index_->size() == model_.size(), index_->size(), model_.size());
    QUIRE_CHECK(index_->num_released() == model_.num_released(), index_->num_released());
    QUIRE_CHECK(index_->victim() == model_.victim(), index(index_->victim()));
    for (int b = 0; b < static_cast<int>(references_.size()); ++b)
      QUIRE_CHECK(index_->num_tokens(BlockId{b}) == model_.num_tokens(BlockId{b}), b);
  }

  Dice& dice_;
  const int block_size_;
  std::unique_ptr<PrefixIndex> index_;
  Model model_;
  std::vector<int> references_;
  std::vector<BlockId> free_;
  std::vector<Holder> holders_;
  Seen seen_;
};

Seen serve(PrefixIndexKind kind) {
  Seen all;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    Dice dice(seed);
    const int block_size = dice(1, 5);
    Pool pool(kind, dice(6, 28), block_size, dice);
    Traffic traffic(dice, block_size, 8 * block_size);
    for (int i = 0; i < 250; ++i) pool.step(traffic);
    const Seen& seen = pool.seen();
    all.hits += seen.hits;
    all.partial += seen.partial;
    all.near_misses += seen.near_misses;
    all.refused += seen.refused;
    all.evicted += seen.evicted;
    all.inner += seen.inner;
    all.superseded += seen.superseded;
    all.lost_in_use += seen.lost_in_use;
  }
  return all;
}

}  // namespace

class TestPrefixIndexRandom : public QObject {
  Q_OBJECT
 private slots:
  void bothIndexesHitTheSameWhileNothingIsEvicted();
  void theHashIndexFollowsItsModelUnderPressure();
  void theRadixIndexFollowsItsModelUnderPressure();
};

void TestPrefixIndexRandom::bothIndexesHitTheSameWhileNothingIsEvicted() {
  constexpr int kBlocks = 2000;
  int hits = 0, near_misses = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Dice dice(seed);
    const int block_size = dice(1, 16);
    const bool tails = seed % 2 == 0;
    const auto hash = make_hash_chain_index(kBlocks, block_size);
    const auto radix = make_radix_index(kBlocks, block_size);
    Traffic traffic(dice, block_size, 12 * block_size);
    int next_block = 0;
    for (int i = 0; i < 120; ++i) {
      const KnownTokens known = traffic.next();
      const int length = static_cast<int>(known.tokens.size());
      const int max_tokens = dice.chance(70) ? length - 1 : dice(0, length);
      const PrefixMatch a = hash->match(known.key(), max_tokens);
      const PrefixMatch b = radix->match(known.key(), max_tokens);
      QVERIFY(a.blocks == b.blocks);
      QVERIFY(a.partial == kNoBlock && b.partial_tokens < block_size);
      if (!tails) {
        QCOMPARE(a.differs_at, b.differs_at);
        QCOMPARE(a.cached_token, b.cached_token);
      }
      hits += static_cast<int>(a.blocks.size());
      near_misses += a.differs_at >= 0 ? 1 : 0;
      for (int p = static_cast<int>(a.blocks.size()); (p + 1) * block_size <= length; ++p) {
        const BlockId block{next_block++};
        QCOMPARE(hash->insert(known.key(), p, block_size, block),
                 radix->insert(known.key(), p, block_size, block));
      }
      if (tails && length % block_size > 0)
        radix->insert(known.key(), length / block_size, length % block_size, BlockId{next_block++});
      QVERIFY(next_block < kBlocks);
    }
    hash->check_integrity();
    radix->check_integrity();
  }
  QVERIFY2(hits > 3000, qPrintable(QString::number(hits)));
  QVERIFY2(near_misses > 500, qPrintable(QString::number(near_misses)));
}

void TestPrefixIndexRandom::theHashIndexFollowsItsModelUnderPressure() {
  const Seen seen = serve(PrefixIndexKind::kHash);
  QVERIFY(seen.hits > 2000);
  QVERIFY(seen.near_misses > 500);
  QVERIFY(seen.refused > 200);
  QVERIFY(seen.evicted > 1000);
}

void TestPrefixIndexRandom::theRadixIndexFollowsItsModelUnderPressure() {
  const Seen seen = serve(PrefixIndexKind::kRadix);
  QVERIFY(seen.hits > 2000);
  QVERIFY(seen.partial > 500);
  QVERIFY(seen.near_misses > 500);
  QVERIFY(seen.refused > 200);
  QVERIFY(seen.evicted > 1000);
  QVERIFY(seen.inner > 10);
  QVERIFY(seen.superseded > 10);
  QVERIFY(seen.lost_in_use > 100);
}

QUIRE_TEST(TestPrefixIndexRandom)
#include "tst_prefix_index_random.moc"
