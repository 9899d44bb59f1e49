#include <cmath>

#include "kernels/backend.h"
#include "kernels/cpu/detect.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/self_check.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;

namespace {

int calls = 0;
bool yes() {
  ++calls;
  return true;
}
bool no() {
  ++calls;
  return false;
}

// Right except for the last output of the last row.
void nearly_right(const std::uint8_t* const* panels, int count, const ActivationRows& x,
                  float* out) {
  scalar_kernels().panel[static_cast<int>(DType::kQ6_K)](panels, count, x, out);
  float& last = out[count * x.rows * 16 - 1];
  last = std::nextafter(last, 1e30f);
}

void nearly_attended(const SpanArgs& args) {
  scalar_kernels().attention->attend_span[static_cast<int>(KvDType::kBF16)](args);
  args.total[0] = std::nextafter(args.total[0], 1e30f);
}

}  // namespace

class TestDetect : public QObject {
  Q_OBJECT
 private slots:
  void tilesAreUsedWhenGrantedAndRight() {
    const Detected found = with_tiles(yes, yes);
    QCOMPARE(found.isa, Isa::kAmx);
    QVERIFY(found.reason.empty());
  }
  void tilesThatComputeDifferentlyAreNotUsedAndThatIsSaid() {
    const Detected found = with_tiles(yes, no);
    QCOMPARE(found.isa, Isa::kAvx512);
    QVERIFY(found.reason.find("results differ") != std::string::npos);
  }
  void tilesThatAreNotGrantedAreNotTried() {
    calls = 0;
    const Detected found = with_tiles(no, yes);
    QCOMPARE(found.isa, Isa::kAvx512);
    QCOMPARE(calls, 1);
    QVERIFY(found.reason.find("not grant") != std::string::npos);
  }
  void everyTablePassesTheSelfCheck() {
    for (const KernelTable* table : test::simd_tables())
      QVERIFY2(gives_the_scalar_bits(*table), table->name);
  }
  void oneWrongBitFailsTheSelfCheck() {
    KernelTable table = scalar_kernels();
    QVERIFY(gives_the_scalar_bits(table));
    table.panel[static_cast<int>(DType::kQ6_K)] = nearly_right;
    QVERIFY(!gives_the_scalar_bits(table));
    AttentionKernels attention = *scalar_kernels().attention;
    attention.attend_span[static_cast<int>(KvDType::kBF16)] = nearly_attended;
    table = scalar_kernels();
    table.attention = &attention;
    QVERIFY(!gives_the_scalar_bits(table));
  }
  void setsAreNamed() {
    Isa isa = Isa::kScalar;
    std::string error;
    QVERIFY(isa_named("", isa, error));
    QCOMPARE(isa, detect());
    QVERIFY(isa_named("scalar", isa, error));
    QCOMPARE(isa, Isa::kScalar);
    QVERIFY(!isa_named("sse9", isa, error));
    QVERIFY(error.find("amx") != std::string::npos);
  }
  void aSetTheMachineLacksIsRefused() {
    if (detect() == Isa::kAmx) QSKIP("this machine has every set");
    BackendOptions options;
    options.isa = "amx";
    std::string error;
    QVERIFY(!make_cpu_backend(options, error));
    QVERIFY2(error.find("has no amx; the highest it has is " + detect_isa()) != std::string::npos,
             error.c_str());
  }
};

QUIRE_TEST(TestDetect)
#include "tst_detect.moc"
