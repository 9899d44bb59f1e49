#include <cstring>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;
using namespace quire::test;

namespace {

std::vector<float> product(const KernelTable& table, int threads, const StoredMatrix& stored,
                           const std::vector<float>& x, int rows) {
  ThreadPool pool(threads, {.on_start = {}, .after_job = table.end_job});
  Arena arena;
  const MatrixView view = stored.view();
  CpuMatrix matrix(std::span(&view, 1));
  matrix.pack(arena, pool);
  Linear linear(table, pool);
  // Twice, so that what the first leaves behind is in the way of the second.
  std::vector<float> out(static_cast<std::size_t>(rows) * stored.rows);
  for (int i = 0; i < 2; ++i) {
    linear.prepare({x.data(), stored.cols, nullptr, rows}, matrix, nullptr, 0.0f);
    linear.multiply(matrix, [&](int row, std::int64_t column, const float* values, int count) {
      std::memcpy(out.data() + row * stored.rows + column, values, count * sizeof(float));
    });
  }
  return out;
}

struct Tile {
  int first, rows;
  std::int64_t output;
  int outputs;
  bool operator==(const Tile&) const = default;
};

std::vector<Tile> tiles_of(const LinearPlan& plan, std::int64_t item) {
  std::vector<Tile> pieces;
  plan.visit(item, [&](int first, int rows, std::int64_t output, int outputs) {
    pieces.push_back({first, rows, output, outputs});
  });
  return pieces;
}

}  // namespace

class TestLinear : public QObject {
  Q_OBJECT
 private slots:
  void everySetGivesTheScalarBitsOnAnyThreads() {
    Random random(1);
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ8_0, DType::kQ6_K})
      for (const int rows : {1, 12, 27, 48}) {
        const StoredMatrix stored(dtype, 40, 512, random);
        const std::vector<float> x = random.normals(static_cast<std::size_t>(rows) * 512);
        const std::vector<float> expected = product(scalar_kernels(), 1, stored, x, rows);
        for (const KernelTable* table : simd_tables())
          for (const int threads : {1, 3})
            QVERIFY2(product(*table, threads, stored, x, rows) == expected,
                     qPrintable(QString("%1, %2 rows, %3, %4 threads")
                                    .arg(dtype_info(dtype).name.data())
                                    .arg(rows)
                                    .arg(table->name)
                                    .arg(threads)));
      }
  }

  void everyOutputOfEveryRowIsInOneItem() {
    Random random(2);
    for (int i = 0; i < 2000; ++i) {
      const LinearPlan::Size size = {.outputs = 1 + random.below(i % 10 == 0 ? 200000 : 3000),
                                     .rows = 1 + random.below(300),
                                     .block_rows = 16 * (1 + random.below(16)),
                                     .threads = 1 + random.below(70),
                                     .shortest = 1 + random.below(5)};
      const LinearPlan plan(size);
      std::vector<Tile> pieces, expected;
      for (std::int64_t item = 0; item < plan.items(); ++item) {
        const std::vector<Tile> more = tiles_of(plan, item);
        QVERIFY(!more.empty());
        pieces.insert(pieces.end(), more.begin(), more.end());
      }
      for (std::int64_t output = 0; output < size.outputs; output += kPanelRows)
        for (int first = 0; first < size.rows; first += size.block_rows)
          expected.push_back(
              {first, std::min(size.block_rows, size.rows - first), output,
               static_cast<int>(std::min<std::int64_t>(kPanelRows, size.outputs - output))});
      QVERIFY(pieces == expected);
    }
  }

  void aThreadReadsLongPiecesFirstAndShortOnesLast() {
    // Qwen3-0.6B's gate and up, 3,072 outputs each.
    const LinearPlan plan({.outputs = 3072, .rows = 1, .block_rows = 128, .threads = 2});
    std::vector<std::size_t> columns;
    for (std::int64_t item = 0; item < plan.items(); ++item)
      columns.push_back(tiles_of(plan, item).size());
    QCOMPARE(columns,
             (std::vector<std::size_t>{48, 48, 24, 24, 12, 12, 6, 6, 3, 3, 1, 2, 1, 1, 1}));
    // More threads than columns to share: one each.
    QCOMPARE(LinearPlan({.outputs = 576, .rows = 1, .block_rows = 128, .threads = 48}).items(),
             std::int64_t{36});
  }
};

QUIRE_TEST(TestLinear)
#include "tst_linear.moc"
