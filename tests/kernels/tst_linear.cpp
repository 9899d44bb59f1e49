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
};

QUIRE_TEST(TestLinear)
#include "tst_linear.moc"
