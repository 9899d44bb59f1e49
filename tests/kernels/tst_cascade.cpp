#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "kernels/cpu/attention_plan.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;
using cpu::AttentionPlan;

namespace {

using Rows = std::vector<float>;

// Requests that may share blocks, for one step.
struct Workload {
  QkvShape shape;
  int window = 0, block_size = 16, padding = 0;
  std::vector<std::vector<int>> tables;  // [request] physical blocks
  std::vector<Piece> pieces;             // the step

  int num_blocks() const {
    int most = 0;
    for (const auto& table : tables)
      for (const int block : table) most = std::max(most, block);
    return most + 1;
  }
};

// `count` requests in a tree: each takes some of the blocks of an earlier one and goes on with its
// own; computed tokens and chunks are random, most are one token.
Workload random_workload(Random& random, int count, int most_tokens) {
  static constexpr QkvShape kShapes[] = {
      {9, 3, 64}, {4, 4, 32}, {8, 1, 48}, {16, 8, 128}, {6, 2, 40}};
  static constexpr int kBlockSizes[] = {16, 16, 8, 24, 32, 128, 5};
  Workload work;
  work.shape = kShapes[random.below(5)];
  work.block_size = kBlockSizes[random.below(7)];
  work.window = random.below(3) == 0 ? 1 + random.below(300) : 0;
  work.padding = random.below(3);
  int next = 0;
  for (int r = 0; r < count; ++r) {
    const int chunk = random.below(3) > 0 ? 1 : 1 + random.below(70);
    const int length = chunk + random.below(most_tokens - chunk);
    const int blocks = (length + work.block_size - 1) / work.block_size;
    std::vector<int> table;
    if (r > 0 && random.below(5) > 0) {
      // What the two have in common was computed before the step.
      const int donor = random.below(r);
      const int whole = std::min((length - chunk) / work.block_size,
                                 work.pieces[donor].num_computed / work.block_size);
      const int shared = random.below(4) == 0 ? random.below(whole + 1) : whole;
      table.assign(work.tables[donor].begin(), work.tables[donor].begin() + shared);
    }
    while (static_cast<int>(table.size()) < blocks) table.push_back(next++);
    work.tables.push_back(std::move(table));
    work.pieces.push_back({r, length - chunk, chunk});
  }
  std::vector<int> order(next);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(random.below(1000)));
  for (auto& table : work.tables)
    for (int& block : table) block = order[block];
  return work;
}

// A workload with its cache filled. Keys and values of a token depend on its physical slot alone,
// so that shared blocks agree.
class Filled {
 public:
  explicit Filled(const Workload& work, KvDType kv = KvDType::kBF16) : work_(work) {
    BackendOptions options;
    options.kv_dtype = kv;
    const auto backend = make_cpu(options);
    const QkvShape& shape = work.shape;
    pool_ = backend->allocate_kv({{{shape.num_kv_heads, shape.head_dim, work.window}}},
                                 work.num_blocks(), work.block_size);
    pool_->poison();
    Random random(77);
    stored_ = random.normals(static_cast<std::size_t>(work.num_blocks()) * work.block_size *
                             shape.qkv_width());
    std::set<int> written;  // blocks
    for (const Piece& piece : work.pieces) {
      if (piece.num_computed == 0) continue;
      int begin = 0;
      const auto& table = work.tables[piece.request];
      while ((begin + 1) * work.block_size <= piece.num_computed && written.contains(table[begin]))
        ++begin;
      for (int i = begin; i * work.block_size < piece.num_computed; ++i) written.insert(table[i]);
      begin *= work.block_size;
      if (begin == piece.num_computed) continue;
      Step step({{piece.request, begin, piece.num_computed - begin}}, work.tables, work.block_size);
      write(*backend, step);
    }
  }

  // The attention output of a step of `pieces`.
  Rows attend(const std::vector<Piece>& pieces, int threads, bool cascade,
              const std::string& isa = "") const {
    BackendOptions options;
    options.num_threads = threads;
    options.cascade_attention = cascade;
    options.isa = isa;
    const auto backend = make_cpu(options);
    const QkvShape& shape = work_.shape;
    Step step(pieces, work_.tables, work_.block_size, work_.padding);
    const auto qkv = write(*backend, step);
    const auto out = backend->allocate(step.num_tokens(), shape.num_heads * shape.head_dim);
    for (int layer = 0; layer < 2; ++layer)  // the second call finds the plan of the first
      backend->attend(*qkv, shape, 1.0f / std::sqrt(static_cast<float>(shape.head_dim)), *pool_, 0,
                      *out);
    Rows result(static_cast<std::size_t>(step.num_tokens()) * out->width());
    backend->download(*out, step.num_tokens(), result);
    return result;
  }

 private:
  std::unique_ptr<Buffer> write(Backend& backend, Step& step) const {
    const QkvShape& shape = work_.shape;
    Rows rows;
    for (int i = 0; i < step.num_tokens(); ++i) {
      const std::int64_t slot = std::max<std::int64_t>(0, step.view().slot_mapping[i]);
      const float* row = stored_.data() + slot * shape.qkv_width();
      rows.insert(rows.end(), row, row + shape.qkv_width());
    }
    auto qkv = backend.allocate(step.num_tokens(), shape.qkv_width());
    set_rows(backend, step, *qkv, rows);
    backend.begin_step(step.view());
    backend.rope_write(*qkv, shape, nullptr, nullptr, 0.0f, {}, *pool_, 0);
    return qkv;
  }

  const Workload& work_;
  std::unique_ptr<KvPool> pool_;
  Rows stored_;  // [slots, qkv_width]
};

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}
bool all_finite(const Rows& rows) {
  return std::ranges::all_of(rows, [](float x) { return std::isfinite(x); });
}

AttentionPlan plan_of(const Workload& work, const cpu::AttentionPlanOptions& options) {
  const Step step(work.pieces, work.tables, work.block_size, work.padding);
  AttentionPlan plan;
  const QkvShape& shape = work.shape;
  plan.build(step.view(),
             {work.window, shape.num_heads / shape.num_kv_heads, shape.num_kv_heads, 64}, options);
  return plan;
}

// `count` requests of one token each behind `shared` common tokens and `own` of their own.
Workload alike(int count, int shared, int own) {
  Workload work;
  work.shape = {9, 3, 64};
  int next = shared / work.block_size;
  for (int r = 0; r < count; ++r) {
    std::vector<int> table(shared / work.block_size);
    std::iota(table.begin(), table.end(), 0);
    for (int i = 0; i < own; i += work.block_size) table.push_back(next++);
    work.tables.push_back(table);
    work.pieces.push_back({r, shared + own - 1, 1});
  }
  return work;
}

// Spans read, all items together.
int spans_read(const AttentionPlan& plan) {
  return std::accumulate(plan.items.begin(), plan.items.end(), 0,
                         [](int sum, const AttentionPlan::Item& item) {
                           return sum + item.span_end - item.span_begin;
                         });
}

}  // namespace

class TestCascade : public QObject {
  Q_OBJECT
 private slots:
  void sharingBlocksDoesNotChangeABit();
  void aRowIsTheSameInEveryBatch();
  void everyQuerySeesEachOfItsSpansOnce();
  void sharedSpansAreReadOnce();
  void branchesShareWhatTheyHaveInCommon();
  void aLongContextIsSpreadOverTheThreads();
  void partialResultsStayWithinTheirBound();
};

void TestCascade::sharingBlocksDoesNotChangeABit() {
  Random random(60);
  for (int round = 0; round < 16; ++round) {
    const Workload work = random_workload(random, 1 + random.below(12), 600);
    const Filled filled(work, static_cast<KvDType>(round % kNumKvDTypes));
    const Rows expected = filled.attend(work.pieces, 1, false);
    QVERIFY2(all_finite(expected), "a slot nobody wrote was read");
    for (const int threads : {1, 2, 3, 4})
      QVERIFY(same_bits(filled.attend(work.pieces, threads, true), expected));
    if (round % 8 == 0) QVERIFY(same_bits(filled.attend(work.pieces, 2, true, "scalar"), expected));
  }
}

void TestCascade::aRowIsTheSameInEveryBatch() {
  const Workload work = alike(64, 256, 40);
  const Filled filled(work);
  const Rows expected = filled.attend(work.pieces, 1, false);
  const std::size_t width = work.shape.num_heads * work.shape.head_dim;
  for (int count = 1; count <= 64; ++count) {
    const std::vector<Piece> some(work.pieces.begin(), work.pieces.begin() + count);
    const Rows actual = filled.attend(some, 2, true);
    QVERIFY(actual.size() == count * width);
    QVERIFY(same_bits(actual.data(), expected.data(), actual.size()));
  }
}

void TestCascade::everyQuerySeesEachOfItsSpansOnce() {
  Random random(61);
  for (int round = 0; round < 120; ++round) {
    const Workload work = random_workload(random, 1 + random.below(20), 3000);
    const AttentionPlan plan = plan_of(work, {.block_size = work.block_size,
                                              .num_threads = 1 + random.below(4),
                                              .share = round % 4 != 0});
    std::vector<std::multiset<int>> seen(plan.queries.size());
    std::set<int> partials;
    for (const AttentionPlan::Item& item : plan.items) {
      QVERIFY(item.count > 0 && item.count <= AttentionPlan::queries_per_item(plan.kind.group));
      for (int i = item.first; i < item.first + item.count; ++i) {
        const int q = plan.item_queries[i];
        const AttentionPlan::Query& query = plan.queries[q];
        if (i > item.first)
          QVERIFY(plan.queries[plan.item_queries[i - 1]].position <= query.position);
        for (int span = item.span_begin; span < item.span_end; ++span) {
          if (!query.sees(span, span + 1)) continue;
          seen[q].insert(span);
          if (query.split >= 0 && !item.leads(query))
            QVERIFY(partials.insert(query.partial_of(span)).second);
        }
      }
    }
    for (std::size_t q = 0; q < seen.size(); ++q) {
      const AttentionPlan::Query& query = plan.queries[q];
      std::multiset<int> expected;
      for (int span = query.first_span; span < query.end_span; ++span) expected.insert(span);
      QVERIFY(seen[q] == expected);
      QVERIFY(query.items >= 1 && (query.items > 1) == (query.split >= 0));
      if (query.split >= 0) QVERIFY(partials.insert(query.first_partial).second);
    }
    QCOMPARE(static_cast<int>(partials.size()), plan.num_partials);
    QVERIFY(partials.empty() || *partials.rbegin() == plan.num_partials - 1);
  }
}

void TestCascade::sharedSpansAreReadOnce() {
  const Workload work = alike(16, 1024, 20);
  QCOMPARE(spans_read(plan_of(work, {.num_threads = 2, .share = false})), 16 * 9);
  QCOMPARE(spans_read(plan_of(work, {.num_threads = 2})), 8 + 16);
  // More rows than an item holds: 20 queries of 3 heads are 60 rows.
  QCOMPARE(spans_read(plan_of(alike(30, 1024, 20), {.num_threads = 2})), 2 * 8 + 30);
  // A block too few for the eighth span.
  QCOMPARE(spans_read(plan_of(alike(16, 1024 - 16, 20), {.num_threads = 1})), 7 + 16 * 2);
}

void TestCascade::branchesShareWhatTheyHaveInCommon() {
  Workload work = alike(6, 256, 400);
  for (int r = 1; r < 3; ++r)  // the first three agree on two more spans
    std::copy_n(work.tables[0].begin(), 32, work.tables[r].begin());
  const AttentionPlan plan = plan_of(work, {.num_threads = 1});
  QCOMPARE(spans_read(plan), 2 + 2 + 3 * 2 + 3 * 4);
}

void TestCascade::aLongContextIsSpreadOverTheThreads() {
  Workload work;
  work.shape = {9, 3, 64};
  int next = 0;
  for (const int length : {60, 300, 4000}) {
    std::vector<int> table(static_cast<std::size_t>(length / 16 + 1));
    std::iota(table.begin(), table.end(), next);
    next += static_cast<int>(table.size());
    work.pieces.push_back({static_cast<int>(work.tables.size()), length, 1});
    work.tables.push_back(table);
  }
  const AttentionPlan plan = plan_of(work, {.num_threads = 2});
  int longest = 0;
  for (const AttentionPlan::Item& item : plan.items)
    longest = std::max(longest, item.span_end - item.span_begin);
  // 36 spans of 3 KV heads; no item takes more than an eighth of a thread's half.
  QVERIFY2(longest * 8 * 2 <= spans_read(plan) * 3 + 16, qPrintable(QString::number(longest)));
  QCOMPARE(plan_of(work, {.num_threads = 1}).items.size(), 3u);
}

void TestCascade::partialResultsStayWithinTheirBound() {
  const Workload work = alike(32, 256, 2000);
  const std::size_t unbounded = plan_of(work, {.num_threads = 2}).partial_bytes();
  QVERIFY(unbounded > 0);
  for (const std::size_t bound : {unbounded, unbounded / 2, std::size_t{0}}) {
    const AttentionPlan plan = plan_of(work, {.num_threads = 2, .max_partial_bytes = bound});
    QVERIFY(plan.partial_bytes() <= bound);
  }
  QCOMPARE(plan_of(work, {.num_threads = 2, .max_partial_bytes = 0}).items.size(), 32u);
}

QUIRE_TEST(TestCascade)
#include "tst_cascade.moc"
