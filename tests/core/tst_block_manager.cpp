#include "engine/core/block_manager.h"
#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

Request request_of(std::int64_t id, std::vector<TokenId> prompt, std::string cache_key = {}) {
  Request request(id_of(id), std::move(prompt), {});
  request.cache_key = std::move(cache_key);
  return request;
}

std::string ids(std::span<const BlockId> blocks) {
  std::string text;
  for (const BlockId block : blocks)
    text += (text.empty() ? "" : " ") + std::to_string(index(block));
  return text;
}

// Every cached block but the one that holds the last token.
PrefixMatch cached(const BlockManager& blocks, Request& request) {
  return blocks.find_cached_prefix(request, request.num_tokens() - 1);
}

// Allocates and publishes the whole request, as a step that prefills it does.
bool fill(BlockManager& blocks, Request& request, const PrefixMatch& adopted = {}) {
  if (!blocks.allocate_slots(request, request.num_tokens(), adopted)) return false;
  request.num_computed_tokens = request.num_tokens();
  blocks.publish(request, request.num_tokens());
  blocks.commit_published();
  blocks.check_integrity();
  return true;
}

// The order in which the free blocks would be handed out.
std::string take_all(BlockManager& blocks) {
  Request taker = request_of(999, prompt_of(1));
  if (!blocks.allocate_slots(taker, blocks.num_free() * blocks.block_size())) return "refused";
  return ids(blocks.table(taker.id));
}

std::string kinds(const std::vector<BlockEvent>& events) {
  static const char* const kNames[] = {"alloc", "adopt", "publish", "withdraw",
                                       "evict", "free",  "release"};
  std::string text;
  for (const BlockEvent& event : events)
    text += (text.empty() ? "" : " ") + std::string(kNames[static_cast<int>(event.kind)]) +
            std::to_string(index(event.block));
  return text;
}

}  // namespace

class TestBlockManager : public QObject {
  Q_OBJECT
 private slots:
  void freedBlocksKeepTheirHashUntilReused();
  void freesTheTailFirstAndReusesUnhashedBlocksBeforeCachedOnes();
  void evictsTheLeastRecentlyFreedFirst();
  void leavesAtLeastOneTokenToCompute();
  void stopsAtTheFirstMiss();
  void adoptingFreeBlocksCountsAgainstTheFreeOnes();
  void failedAllocationChangesNothing();
  void sharedBlocksStayUntilTheLastReferenceGoes();
  void duplicatesStayPrivate();
  void differentKeysNeverShare();
  void withdrawsWhatAStepPublished();
  void withdrawsOneRequestsBlocks();
  void trimReleasesTheBlocksPastTheEnd();
  void resetForgetsBlocksInUseToo();
  void withoutCachingNothingIsFound();
  void reportsEveryChangeAsAnEvent();
  void endsAsItBegan();
};

void TestBlockManager::freedBlocksKeepTheirHashUntilReused() {
  BlockManager blocks(4, 4, make_hash_chain_index(4, 4));
  Request a = request_of(1, prompt_of(9));
  QVERIFY(fill(blocks, a));
  blocks.free(a.id);
  QCOMPARE(blocks.num_free(), 4);
  QCOMPARE(blocks.num_cached_free(), 2);
  Request again = request_of(2, prompt_of(9));
  QCOMPARE(ids(cached(blocks, again).blocks), std::string("0 1"));
  QCOMPARE(take_all(blocks).size(), std::string("0 1 2 3").size());
  QVERIFY(cached(blocks, again).blocks.empty());
  QCOMPARE(blocks.num_evictions(), 2);
  blocks.check_integrity();
}

void TestBlockManager::freesTheTailFirstAndReusesUnhashedBlocksBeforeCachedOnes() {
  BlockManager blocks(6, 4, make_hash_chain_index(6, 4));
  Request a = request_of(1, prompt_of(14));  // blocks 0 1 2 full, 3 partial
  QVERIFY(fill(blocks, a));
  blocks.free(a.id);
  // The partial block first, then the two never used, then the cached ones from the tail.
  QCOMPARE(take_all(blocks), std::string("3 4 5 2 1 0"));
}

void TestBlockManager::evictsTheLeastRecentlyFreedFirst() {
  BlockManager blocks(6, 4, make_hash_chain_index(6, 4));
  Request a = request_of(1, prompt_of(8, 1)), b = request_of(2, prompt_of(8, 50)),
          c = request_of(3, prompt_of(8, 80));
  QVERIFY(fill(blocks, a) && fill(blocks, b) && fill(blocks, c));
  blocks.free(b.id);
  blocks.free(a.id);
  blocks.free(c.id);
  QCOMPARE(take_all(blocks), std::string("3 2 1 0 5 4"));
}

void TestBlockManager::leavesAtLeastOneTokenToCompute() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(12));
  QVERIFY(fill(blocks, a));
  for (int length = 1; length <= 12; ++length) {
    std::vector<TokenId> prefix(a.token_ids.begin(), a.token_ids.begin() + length);
    Request b = request_of(2, prefix);
    QCOMPARE(static_cast<int>(cached(blocks, b).blocks.size()), (length - 1) / 4);
  }
}

void TestBlockManager::stopsAtTheFirstMiss() {
  BlockManager blocks(4, 4, make_hash_chain_index(4, 4));
  Request a = request_of(1, prompt_of(13));
  QVERIFY(fill(blocks, a));
  blocks.free(a.id);  // reuse order 3 2 1 0
  Request b = request_of(2, prompt_of(8, 77));
  QVERIFY(fill(blocks, b));  // takes 3 and 2
  QCOMPARE(ids(cached(blocks, a).blocks), std::string("0 1"));
}

void TestBlockManager::adoptingFreeBlocksCountsAgainstTheFreeOnes() {
  BlockManager blocks(4, 4, make_hash_chain_index(4, 4));
  Request a = request_of(1, prompt_of(9));
  QVERIFY(fill(blocks, a));
  blocks.free(a.id);
  Request b = request_of(2, prompt_of(17));
  const auto adopted = cached(blocks, b);
  QCOMPARE(adopted.blocks.size(), std::size_t{2});
  QCOMPARE(blocks.blocks_needed(b, 17, adopted.blocks), 5);
  QVERIFY(!blocks.allocate_slots(b, 17, adopted));  // 2 adopted + 3 new > 4
  blocks.check_integrity();
  QVERIFY(blocks.allocate_slots(b, 16, adopted));
  QCOMPARE(blocks.num_free(), 0);
  // Adopting blocks somebody holds costs nothing.
  Request c = request_of(3, prompt_of(9));
  QCOMPARE(blocks.blocks_needed(c, 8, cached(blocks, c).blocks), 0);
}

void TestBlockManager::failedAllocationChangesNothing() {
  BlockManager blocks(3, 4, make_hash_chain_index(3, 4));
  std::vector<BlockEvent> events;
  Request a = request_of(1, prompt_of(8));
  QVERIFY(fill(blocks, a));
  blocks.set_event_log(&events);
  a.num_computed_tokens = 8;
  QVERIFY(!blocks.allocate_slots(a, 13));
  QVERIFY(events.empty());
  QCOMPARE(blocks.table(a.id).size(), std::size_t{2});
  QCOMPARE(blocks.num_free(), 1);
  Request b = request_of(2, prompt_of(8, 60));
  QVERIFY(!blocks.allocate_slots(b, 8));
  QVERIFY(blocks.table(b.id).empty());
  blocks.check_integrity();
  QVERIFY(blocks.allocate_slots(a, 12));
}

void TestBlockManager::sharedBlocksStayUntilTheLastReferenceGoes() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(9)), b = request_of(2, prompt_of(10));
  QVERIFY(fill(blocks, a));
  QVERIFY(fill(blocks, b, cached(blocks, b)));
  QCOMPARE(blocks.view(BlockId{0}).ref_count, 2);
  QCOMPARE(blocks.view(BlockId{0}).owner, a.id);
  blocks.free(a.id);
  QCOMPARE(blocks.view(BlockId{0}).ref_count, 1);
  QCOMPARE(blocks.num_free(), 5);
  blocks.check_integrity();
  blocks.free(b.id);
  QCOMPARE(blocks.num_free(), 8);
  QCOMPARE(blocks.num_cached_free(), 2);
  blocks.check_integrity();
}

void TestBlockManager::duplicatesStayPrivate() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(8)), b = request_of(2, prompt_of(8));
  QVERIFY(fill(blocks, a));
  const auto adopted = cached(blocks, b);
  QCOMPARE(ids(adopted.blocks), std::string("0"));
  QVERIFY(fill(blocks, b, adopted));
  QVERIFY(!blocks.view(BlockId{2}).hashed);  // b's own second block repeats block 1
  blocks.free(a.id);
  blocks.free(b.id);
  QCOMPARE(blocks.num_cached_free(), 2);
  Request c = request_of(3, prompt_of(9));
  QCOMPARE(ids(cached(blocks, c).blocks), std::string("0 1"));
}

void TestBlockManager::differentKeysNeverShare() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(9), "tenant a");
  QVERIFY(fill(blocks, a));
  Request b = request_of(2, prompt_of(9), "tenant b"), plain = request_of(3, prompt_of(9)),
          same = request_of(4, prompt_of(9), "tenant a");
  QVERIFY(cached(blocks, b).blocks.empty());
  QVERIFY(cached(blocks, plain).blocks.empty());
  QCOMPARE(cached(blocks, same).blocks.size(), std::size_t{2});
}

void TestBlockManager::withdrawsWhatAStepPublished() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(13)), b = request_of(2, prompt_of(13));
  QVERIFY(blocks.allocate_slots(a, 8));
  blocks.publish(a, 8);
  blocks.commit_published();
  QVERIFY(blocks.allocate_slots(a, 13));
  blocks.publish(a, 13);
  QVERIFY(blocks.allocate_slots(b, 13, cached(blocks, b)));
  QCOMPARE(blocks.table(b.id).size(), std::size_t{4});
  QVERIFY(blocks.fresh_blocks_shared(a.id));
  QVERIFY(!blocks.fresh_blocks_shared(b.id));
  blocks.withdraw_published();
  blocks.free(b.id);
  blocks.trim(a.id, 8);
  blocks.check_integrity();
  QCOMPARE(cached(blocks, b).blocks.size(), std::size_t{2});
  QVERIFY(blocks.allocate_slots(a, 13));
  blocks.publish(a, 13);  // may be published again
  QCOMPARE(cached(blocks, b).blocks.size(), std::size_t{3});
}

void TestBlockManager::withdrawsOneRequestsBlocks() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(5)), b = request_of(2, prompt_of(5, 70));
  QVERIFY(blocks.allocate_slots(a, 5) && blocks.allocate_slots(b, 5));
  blocks.publish(a, 5);
  blocks.publish(b, 5);
  blocks.withdraw_published(a.id);
  QVERIFY(cached(blocks, a).blocks.empty());
  QCOMPARE(cached(blocks, b).blocks.size(), std::size_t{1});
  blocks.withdraw_published();
  QVERIFY(cached(blocks, b).blocks.empty());
  blocks.check_integrity();
}

void TestBlockManager::trimReleasesTheBlocksPastTheEnd() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(16));
  QVERIFY(fill(blocks, a));
  blocks.trim(a.id, 9);
  QCOMPARE(ids(blocks.table(a.id)), std::string("0 1 2"));
  QVERIFY(!blocks.view(BlockId{3}).hashed);
  blocks.trim(a.id, 8);
  QCOMPARE(ids(blocks.table(a.id)), std::string("0 1"));
  blocks.trim(a.id, 8);
  QCOMPARE(blocks.num_free(), 6);
  blocks.check_integrity();
}

void TestBlockManager::resetForgetsBlocksInUseToo() {
  BlockManager blocks(8, 4, make_hash_chain_index(8, 4));
  Request a = request_of(1, prompt_of(9)), b = request_of(2, prompt_of(9, 60));
  QVERIFY(fill(blocks, a) && fill(blocks, b));
  blocks.free(b.id);
  blocks.reset_prefix_cache();
  blocks.check_integrity();
  QCOMPARE(blocks.num_cached_free(), 0);
  QVERIFY(cached(blocks, a).blocks.empty() && cached(blocks, b).blocks.empty());
  // Later blocks of a request that began before the reset are not offered: their history is gone.
  a.token_ids = prompt_of(16);
  QVERIFY(blocks.allocate_slots(a, 16));
  blocks.publish(a, 16);
  QVERIFY(!blocks.view(blocks.table(a.id)[3]).hashed);
  blocks.free(a.id);
  QCOMPARE(blocks.num_cached_free(), 0);
  a.num_computed_tokens = 0;
  QVERIFY(fill(blocks, a));
  QCOMPARE(cached(blocks, a).blocks.size(), std::size_t{3});
}

void TestBlockManager::withoutCachingNothingIsFound() {
  BlockManager blocks(8, 4, nullptr);
  Request a = request_of(1, prompt_of(9));
  QVERIFY(fill(blocks, a));
  QVERIFY(cached(blocks, a).blocks.empty());
  blocks.free(a.id);
  QCOMPARE(blocks.num_cached_free(), 0);
  QCOMPARE(blocks.num_free(), 8);
}

void TestBlockManager::reportsEveryChangeAsAnEvent() {
  BlockManager blocks(4, 4, make_hash_chain_index(4, 4));
  std::vector<BlockEvent> events;
  blocks.set_event_log(&events);
  const auto drain = [&] { return kinds(std::exchange(events, {})); };
  Request a = request_of(1, prompt_of(9)), b = request_of(2, prompt_of(10));
  QVERIFY(fill(blocks, a));
  QCOMPARE(drain(), std::string("alloc0 alloc1 alloc2 publish0 publish1"));
  QVERIFY(fill(blocks, b, cached(blocks, b)));
  QCOMPARE(drain(), std::string("adopt0 adopt1 alloc3"));
  blocks.free(a.id);
  QCOMPARE(drain(), std::string("free2 release1 release0"));
  blocks.free(b.id);
  QCOMPARE(drain(), std::string("free3 free1 free0"));
  take_all(blocks);
  QCOMPARE(drain(), std::string("alloc3 alloc2 evict1 alloc1 evict0 alloc0"));
}

void TestBlockManager::endsAsItBegan() {
  BlockManager blocks(32, 4, make_hash_chain_index(32, 4));
  for (int round = 0; round < 50; ++round) {
    std::vector<Request> held;
    for (int i = 0; i < 4; ++i) {
      held.push_back(request_of(round * 10 + i, prompt_of(5 + (round * 7 + i * 3) % 20, i % 3)));
      QVERIFY(fill(blocks, held.back(), cached(blocks, held.back())));
    }
    for (const Request& request : held) blocks.free(request.id);
  }
  blocks.check_integrity();
  QCOMPARE(blocks.num_free(), 32);
}

QUIRE_TEST(TestBlockManager)
#include "tst_block_manager.moc"
