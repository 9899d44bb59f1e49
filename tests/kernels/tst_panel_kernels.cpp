#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/cpu/pack.h"
#include "kernels/cpu/prepared_rows.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;
using namespace quire::test;

namespace {

// Activation rows in every form, made by the scalar kernels. What may be read past the last row,
// and what lay there before, is not a number.
struct Activations {
  std::vector<float> x;
  PreparedRows prepared;

  Activations(int rows, std::int64_t cols, Random& random) : x(random.normals(rows * cols)) {
    const RowForms forms{true, true, true, cols % kBlock == 0};
    const std::vector<float> stale(cols + kBf16Step, __builtin_nanf(""));
    prepared.reserve(rows + kReadableRows, std::ssize(stale), forms);
    for (int row = 0; row < rows + kReadableRows; ++row)
      prepared.prepare(scalar_kernels(), stale.data(), row);
    prepared.reserve(rows, cols, forms);
    for (int row = 0; row < rows; ++row)
      prepared.prepare(scalar_kernels(), x.data() + row * cols, row);
  }
  ActivationRows view(int first, int count) const { return rows_of(prepared.view(), first, count); }
};

std::vector<std::uint8_t> packed(const StoredMatrix& matrix, std::int64_t panel) {
  std::vector<std::uint8_t> bytes(panel_bytes(matrix.dtype, matrix.cols));
  pack_panel(matrix.view(), panel, bytes.data());
  return bytes;
}

std::vector<float> multiply(const KernelTable& table, DType dtype,
                            const std::vector<std::uint8_t>& panel, const ActivationRows& x) {
  std::vector<float> out(x.rows * kPanelRows, -1.0f);
  const std::uint8_t* bytes = panel.data();
  table.panel[static_cast<int>(dtype)](&bytes, 1, x, out.data());
  return out;
}

std::int64_t cols_for(DType dtype, int blocks) {
  const int elements = dtype_info(dtype).block_elements;
  return elements == 1 ? blocks * 24 + 7 : std::int64_t{elements} * blocks;
}

}  // namespace

class TestPanelKernels : public QObject {
  Q_OBJECT
 private slots:
  // With the activations' own rounding taken out, only float32 rounding is left: one rounding per
  // block (or input) of a sum of at most sum |term|.
  void scalarKernelMultipliesDecodedWeights();
  void everyInstructionSetGivesTheScalarBits();
  void anyNumberOfRowsGivesTheScalarBits();
  void aRowDoesNotDependOnTheOthers();
  void aPanelDoesNotDependOnThoseBesideIt();
  void rowsPastTheEndAreZero();
  void bf16SumsAreAmxsOwn();
  void everyInstructionSetRoundsAlike();
};

void TestPanelKernels::scalarKernelMultipliesDecodedWeights() {
  Random random(1);
  for (const DType dtype : all_dtypes()) {
    const StoredMatrix matrix(dtype, 16, cols_for(dtype, 2), random);
    const std::vector<float> weights = matrix.decoded();
    const Activations activations(3, matrix.cols, random);
    const ActivationRows x = activations.view(0, 3);
    const auto out = multiply(scalar_kernels(), dtype, packed(matrix, 0), x);
    for (int m = 0; m < 3; ++m)
      for (int n = 0; n < 16; ++n) {
        double exact = 0, magnitude = 0;
        for (std::int64_t k = 0; k < matrix.cols; ++k) {
          const std::int64_t at = m * matrix.cols + k;
          const double value = is_quantised(dtype)
                                   ? static_cast<double>(x.scale[at / kBlock]) * x.q[at]
                               : dtype == DType::kBF16 ? static_cast<double>(x.rounded[at])
                                                       : static_cast<double>(x.x[at]);
          exact += value * weights[n * matrix.cols + k];
          magnitude += std::abs(value) * (std::abs(weights[n * matrix.cols + k]) + 0.5);
        }
        const double bound = magnitude * 0x1p-24 * (static_cast<double>(matrix.cols) / 8 + 8);
        QVERIFY2(std::abs(out[m * 16 + n] - exact) <= bound,
                 qPrintable(QString("%1: %2 against %3")
                                .arg(dtype_info(dtype).name.data())
                                .arg(out[m * 16 + n])
                                .arg(exact)));
      }
  }
}

void TestPanelKernels::everyInstructionSetGivesTheScalarBits() {
  Random random(2);
  if (simd_tables().empty()) QSKIP("this CPU has no AVX2, so only the scalar kernels can run");
  for (const DType dtype : all_dtypes())
    for (const int rows : {1, 2, 3, 4, 5, 7, 8, 13, 17}) {
      const StoredMatrix matrix(dtype, 16, cols_for(dtype, 1 + random.below(3)), random);
      const std::vector<std::uint8_t> panel = packed(matrix, 0);
      const Activations x(rows, matrix.cols, random);
      const auto expected = multiply(scalar_kernels(), dtype, panel, x.view(0, rows));
      for (const KernelTable* table : simd_tables())
        QVERIFY2(same_bits(multiply(*table, dtype, panel, x.view(0, rows)), expected),
                 qPrintable(QString("%1, %2 rows, %3")
                                .arg(dtype_info(dtype).name.data())
                                .arg(rows)
                                .arg(table->name)));
    }
}

// Row counts around the tiles of every set, more than AMX takes in one pass among them, and inputs
// around the 1,024 that AMX unpacks at a time.
void TestPanelKernels::anyNumberOfRowsGivesTheScalarBits() {
  constexpr int kMostRows = 114;
  Random random(5);
  for (const DType dtype : all_dtypes()) {
    const int elements = is_quantised(dtype) ? dtype_info(dtype).block_elements : 33;
    for (const int inputs : {elements, 1024 - elements, 1024 + elements}) {
      const StoredMatrix matrix(dtype, 16, std::max(inputs, elements), random);
      const std::vector<std::uint8_t> panel = packed(matrix, 0);
      const Activations x(kMostRows, matrix.cols, random);
      const auto expected = multiply(scalar_kernels(), dtype, panel, x.view(0, kMostRows));
      for (const KernelTable* table : simd_tables())
        for (int rows = 1; rows <= kMostRows; rows += 1 + random.below(inputs / 128 + 1)) {
          const auto found = multiply(*table, dtype, panel, x.view(0, rows));
          QVERIFY2(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0,
                   qPrintable(QString("%1, %2 inputs, %3 rows, %4")
                                  .arg(dtype_info(dtype).name.data())
                                  .arg(matrix.cols)
                                  .arg(rows)
                                  .arg(table->name)));
        }
    }
  }
}

void TestPanelKernels::aRowDoesNotDependOnTheOthers() {
  Random random(3);
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&scalar_kernels());
  for (const DType dtype : all_dtypes()) {
    const StoredMatrix matrix(dtype, 16, cols_for(dtype, 1), random);
    const std::vector<std::uint8_t> panel = packed(matrix, 0);
    for (const KernelTable* table : tables) {
      const int rows = table == &scalar_kernels() ? 9 : 70;
      const Activations x(rows, matrix.cols, random);
      const auto together = multiply(*table, dtype, panel, x.view(0, rows));
      for (int i = 0; i < rows; ++i) {
        const auto alone = multiply(*table, dtype, panel, x.view(i, 1));
        QVERIFY(std::memcmp(alone.data(), together.data() + i * 16, 64) == 0);
      }
    }
  }
}

void TestPanelKernels::aPanelDoesNotDependOnThoseBesideIt() {
  Random random(12);
  constexpr int kMost = 2 * kPanelsAtOnce - 1;
  for (const DType dtype : all_dtypes()) {
    const StoredMatrix matrix(dtype, kMost * kPanelRows, cols_for(dtype, 3), random);
    std::vector<std::vector<std::uint8_t>> bytes;
    std::vector<const std::uint8_t*> panels;
    for (int p = 0; p < kMost; ++p) panels.push_back(bytes.emplace_back(packed(matrix, p)).data());
    const Activations x(20, matrix.cols, random);
    std::vector<const KernelTable*> tables = simd_tables();
    tables.push_back(&scalar_kernels());
    for (const int rows : {1, 2, 9, 20}) {
      std::vector<float> each;
      for (const std::vector<std::uint8_t>& panel : bytes) {
        const std::vector<float> alone = multiply(scalar_kernels(), dtype, panel, x.view(0, rows));
        each.insert(each.end(), alone.begin(), alone.end());
      }
      for (const KernelTable* table : tables)
        for (int count = 1; count <= kMost; ++count) {
          std::vector<float> found(count * rows * kPanelRows, -1.0f);
          const std::vector<float> expected(each.begin(), each.begin() + std::ssize(found));
          table->panel[static_cast<int>(dtype)](panels.data(), count, x.view(0, rows),
                                                found.data());
          QVERIFY2(found == expected, qPrintable(QString("%1, %2, %3 rows, %4 panels")
                                                     .arg(dtype_info(dtype).name.data())
                                                     .arg(table->name)
                                                     .arg(rows)
                                                     .arg(count)));
        }
    }
  }
}

void TestPanelKernels::rowsPastTheEndAreZero() {
  Random random(4);
  for (const DType dtype : all_dtypes()) {
    const StoredMatrix matrix(dtype, 21, cols_for(dtype, 1), random);
    const Activations x(1, matrix.cols, random);
    const auto out = multiply(scalar_kernels(), dtype, packed(matrix, 1), x.view(0, 1));
    for (int lane = 5; lane < 16; ++lane) QCOMPARE(out[lane], 0.0f);
  }
}

// The definition, with neither panels nor lanes.
float amx_sum(const float* weights, const float* x, std::int64_t cols) {
  float acc = 0;
  for (std::int64_t k = 0; k < cols; k += 32) {
    float sums[2] = {0, 0};
    for (std::int64_t i = k; i < std::min(k + 32, cols); ++i)
      sums[i % 2] = std::fma(weights[i], x[i], sums[i % 2]);
    acc += sums[0] + sums[1];
  }
  return acc;
}

void TestPanelKernels::bf16SumsAreAmxsOwn() {
  Random random(6);
  for (const int cols : {1, 2, 31, 32, 33, 63, 95, 576}) {
    const StoredMatrix matrix(DType::kBF16, 16, cols, random);
    const std::vector<float> weights = matrix.decoded();
    const Activations x(20, cols, random);
    std::vector<const KernelTable*> tables = simd_tables();
    tables.push_back(&scalar_kernels());
    for (const KernelTable* table : tables) {
      const auto out = multiply(*table, DType::kBF16, packed(matrix, 0), x.view(0, 20));
      for (int m = 0; m < 20; ++m)
        for (int n = 0; n < 16; ++n)
          QCOMPARE(std::bit_cast<std::uint32_t>(out[m * 16 + n]),
                   std::bit_cast<std::uint32_t>(
                       amx_sum(weights.data() + n * cols, x.view(m, 1).rounded, cols)));
    }
  }
}

void TestPanelKernels::everyInstructionSetRoundsAlike() {
  Random random(7);
  std::vector<float> x;
  for (int i = 0; i < 4000; ++i) {
    std::uint32_t bits = static_cast<std::uint32_t>(random.below(1 << 16)) << 16;
    bits |= i % 4 == 0   ? 0x8000u
            : i % 4 == 1 ? 0x7fffu + static_cast<std::uint32_t>(random.below(3))
                         : static_cast<std::uint32_t>(random.below(1 << 16));
    x.push_back(std::bit_cast<float>(bits));
  }
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&scalar_kernels());
  for (const std::int64_t cols : {1, 16, 33, 4000})
    for (const KernelTable* table : tables) {
      std::vector<float> rounded(cols);
      table->round_row(x.data(), cols, rounded.data());
      for (std::int64_t i = 0; i < cols; ++i)
        QCOMPARE(std::bit_cast<std::uint32_t>(rounded[i]),
                 static_cast<std::uint32_t>(float_to_bf16(x[i])) << 16);
    }
}

QUIRE_TEST(TestPanelKernels)
#include "tst_panel_kernels.moc"
