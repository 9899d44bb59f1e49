#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/format.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;
using namespace quire::test;

namespace {

using Rows = std::vector<float>;

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&scalar_kernels());
  return tables;
}

struct Quantised {
  std::vector<std::int8_t> q;
  Rows scale, scaled_sum;
  std::vector<std::int16_t> sums;

  Quantised(const KernelTable& table, const Rows& x)
      : q(x.size()), scale(x.size() / 32), scaled_sum(x.size() / 32), sums(x.size() / 16) {
    table.quantise_row(x.data(), static_cast<std::int64_t>(x.size()),
                       {q.data(), scale.data(), scaled_sum.data(),
                        reinterpret_cast<std::int16_t(*)[2]>(sums.data())});
  }
  bool same_as(const Quantised& other) const {
    return q == other.q && same_bits(scale, other.scale) &&
           same_bits(scaled_sum, other.scaled_sum) && sums == other.sums;
  }
};

}  // namespace

// Each test holds FlushDenormals, as every caller of the kernels does.
class TestRowKernels : public QObject {
  Q_OBJECT
 private slots:
  void expIsAccurateEverywhere();
  void expHandlesTheEnds();
  void quantisedValuesAreWithinHalfAStep();
  void quantisedZeroTinyAndDamagedBlocks();
  void everyInstructionSetGivesTheScalarBits();
};

void TestRowKernels::expIsAccurateEverywhere() {
  const FlushDenormals flush;
  Rows x, y;
  for (float v = -87.3f; v < 88.3f; v += 0.0137f) x.push_back(v);
  x.resize(x.size() / 16 * 16);
  y.resize(x.size());
  scalar_kernels().exp(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    QVERIFY2(std::abs(y[i] - exact) <= 2 * 0x1p-23 * exact, qPrintable(QString::number(x[i])));
  }
}

void TestRowKernels::expHandlesTheEnds() {
  const FlushDenormals flush;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const KernelTable* table : all_tables()) {
    Rows x(16, 0.0f);
    x[1] = -kInfinity;
    x[2] = kInfinity;
    x[3] = std::nanf("");
    x[4] = -1e30f;
    x[5] = 1e30f;
    table->exp(x.data(), x.data(), 16);
    QCOMPARE(x[0], 1.0f);
    QCOMPARE(x[1], 0.0f);
    QCOMPARE(x[2], kInfinity);
    QVERIFY(std::isnan(x[3]));
    QCOMPARE(x[4], 0.0f);
    QCOMPARE(x[5], kInfinity);
  }
}

void TestRowKernels::quantisedValuesAreWithinHalfAStep() {
  const FlushDenormals flush;
  Random random(30);
  Rows x = random.normals(320, 4.0f);
  x[70] = 1000.0f;
  const Quantised row(scalar_kernels(), x);
  for (std::size_t i = 0; i < x.size(); ++i)
    QVERIFY(std::abs(x[i] - row.scale[i / 32] * row.q[i]) <= 0.50001f * row.scale[i / 32]);
  for (std::size_t half = 0; half < row.sums.size(); ++half) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += row.q[half * 16 + i];
    QCOMPARE(static_cast<int>(row.sums[half]), sum);
  }
}

void TestRowKernels::quantisedZeroTinyAndDamagedBlocks() {
  const FlushDenormals flush;
  for (const KernelTable* table : all_tables()) {
    Rows x(32 * 4, 0.0f);
    x[32] = 1e-38f;
    x[64 + 3] = std::nanf("");
    x[96 + 31] = -std::numeric_limits<float>::infinity();
    const Quantised row(*table, x);
    QCOMPARE(row.scale[0], 0.0f);
    QCOMPARE(row.scale[1], 0.0f);
    QVERIFY(std::isnan(row.scale[2]) && std::isnan(row.scale[3]));
    QVERIFY(std::isnan(row.scaled_sum[2]));
  }
}

void TestRowKernels::everyInstructionSetGivesTheScalarBits() {
  const FlushDenormals flush;
  Random random(31);
  const KernelTable& scalar = scalar_kernels();
  for (const KernelTable* table : simd_tables())
    for (const int count : {32, 64, 96, 576, 80, 72, 37}) {
      const Rows x = random.normals(count, 5.0f), weight = random.normals(count);
      Rows expected(count), actual(count);
      scalar.rms_norm(x.data(), weight.data(), 1e-5f, count, expected.data());
      table->rms_norm(x.data(), weight.data(), 1e-5f, count, actual.data());
      QVERIFY(same_bits(actual, expected));
      if (count % 16 != 0) continue;
      for (const auto op : {&KernelTable::silu_mul, &KernelTable::gelu_mul}) {
        (scalar.*op)(x.data(), weight.data(), expected.data(), count);
        (table->*op)(x.data(), weight.data(), actual.data(), count);
        QVERIFY(same_bits(actual, expected));
      }
      scalar.exp(x.data(), expected.data(), count);
      table->exp(x.data(), actual.data(), count);
      QVERIFY(same_bits(actual, expected));
      if (count % 32 == 0) QVERIFY(Quantised(*table, x).same_as(Quantised(scalar, x)));
    }
}

QUIRE_TEST(TestRowKernels)
#include "tst_row_kernels.moc"
