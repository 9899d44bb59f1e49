#include "engine/core/batch.h"
#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

Request at(std::int64_t id, int num_tokens, int num_prompt, int num_computed) {
  Request request(id_of(id), prompt_of(num_tokens), {});
  request.num_prompt_tokens = num_prompt;
  request.num_computed_tokens = num_computed;
  return request;
}

std::vector<BlockId> table_of(std::initializer_list<int> blocks) {
  std::vector<BlockId> table;
  for (const int block : blocks) table.push_back(BlockId{block});
  return table;
}

using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;

}  // namespace

class TestBatch : public QObject {
  Q_OBJECT
 private slots:
  void concatenatesEveryKindOfWork();
  void placesTokensAcrossBlockBoundaries();
  void samplesOneRowPerDraftAndOneMore();
  void appendsPaddingRows();
  void padsNothingWhenThereAreMoreRequests();
};

void TestBatch::concatenatesEveryKindOfWork() {
  const Request chunk = at(1, 20, 20, 6), decode = at(2, 10, 8, 9), fresh = at(3, 4, 4, 0);
  const auto chunk_table = table_of({7, 2, 5}), decode_table = table_of({1, 3, 4}),
             fresh_table = table_of({6});
  const BatchEntry entries[] = {
      {&chunk, 3, chunk_table}, {&decode, 1, decode_table}, {&fresh, 4, fresh_table}};
  const Batch batch = build_batch(entries, 4);
  QCOMPARE(batch.num_tokens(), 8);
  QCOMPARE(batch.positions, (Ints{6, 7, 8, 9, 0, 1, 2, 3}));
  QCOMPARE(batch.query_start_loc, (Ints{0, 3, 4, 8}));
  QCOMPARE(batch.seq_lens, (Ints{9, 10, 4}));
  QCOMPARE(batch.slot_mapping, (Longs{10, 11, 20, 17, 24, 25, 26, 27}));
  QCOMPARE(batch.max_blocks, 3);
  QCOMPARE(batch.block_table, (Ints{7, 2, 5, 1, 3, 4, 6, 0, 0}));
  QCOMPARE(batch.sample_counts, (Ints{0, 1, 1}));
  QCOMPARE(batch.logits_indices, (Ints{3, 7}));
  QCOMPARE(batch.input_ids[0], chunk.token_ids[6]);
  QCOMPARE(batch.input_ids[3], decode.token_ids[9]);
}

void TestBatch::placesTokensAcrossBlockBoundaries() {
  const Request request = at(1, 9, 9, 0);
  const auto table = table_of({3, 0, 2});
  const BatchEntry entry{&request, 9, table};
  QCOMPARE(build_batch({&entry, 1}, 4).slot_mapping, (Longs{12, 13, 14, 15, 0, 1, 2, 3, 8}));
  QCOMPARE(build_batch({&entry, 1}, 16).slot_mapping, (Longs{48, 49, 50, 51, 52, 53, 54, 55, 56}));
}

void TestBatch::samplesOneRowPerDraftAndOneMore() {
  Request request = at(1, 6, 4, 5);
  request.spec_token_ids = {90, 91, 92};
  const auto table = table_of({0, 1, 2});
  const BatchEntry all{&request, 4, table}, some{&request, 2, table};
  const Batch batch = build_batch({&all, 1}, 4);
  QCOMPARE(batch.sample_counts, Ints{4});
  QCOMPARE(batch.logits_indices, (Ints{0, 1, 2, 3}));
  QCOMPARE(batch.input_ids[3], 92);
  QCOMPARE(build_batch({&some, 1}, 4).sample_counts, Ints{2});
  request.num_computed_tokens = 3;  // a recompute that reaches the drafts
  const BatchEntry mixed{&request, 5, table};
  QCOMPARE(build_batch({&mixed, 1}, 4).logits_indices, (Ints{2, 3, 4}));
}

void TestBatch::appendsPaddingRows() {
  const Request request = at(1, 5, 4, 4);
  const auto table = table_of({2, 1});
  const BatchEntry entry{&request, 1, table};
  const Batch batch = build_batch({&entry, 1}, 4, 3);
  QCOMPARE(batch.slot_mapping, (Longs{4, -1, -1}));
  QCOMPARE(batch.seq_lens, (Ints{5, 0, 0}));
  QCOMPARE(batch.query_start_loc, (Ints{0, 1, 2, 3}));
  QCOMPARE(batch.sample_counts, (Ints{1, 0, 0}));
  QCOMPARE(batch.block_table, (Ints{2, 1, 0, 0, 0, 0}));
  QCOMPARE(batch.request_ids[2], kNoRequest);
  QCOMPARE(batch.logits_indices, Ints{0});
}

void TestBatch::padsNothingWhenThereAreMoreRequests() {
  const Request request = at(1, 5, 4, 4);
  const auto table = table_of({2, 1});
  const BatchEntry entries[] = {{&request, 1, table}, {&request, 1, table}};
  QCOMPARE(build_batch(entries, 4, 1).num_reqs(), 2);
  QCOMPARE(build_batch({}, 4, 0).block_table.size(), std::size_t{0});
}

QUIRE_TEST(TestBatch)
#include "tst_batch.moc"
