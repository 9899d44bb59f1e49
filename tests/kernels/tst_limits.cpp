#include "kernels/limits.h"

#include "kernels/backend.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

std::optional<MachineLimits> measured(const std::string& isa, int threads) {
  std::string error;
  return measure_limits({threads, 1, std::size_t{8} << 20, isa}, error);
}

}  // namespace

class TestLimits : public QObject {
  Q_OBJECT
 private slots:
  void everyLimitIsMeasured() {
    const auto limits = measured(detect_isa(), 2);
    QVERIFY(limits);
    QCOMPARE(limits->num_threads, 2);
    QCOMPARE(limits->isa, detect_isa());
    for (const MachineLimits::Compute& compute :
         {limits->fma_gflop_s, limits->bf16_gflop_s, limits->int8_gop_s})
      QVERIFY(compute.one_thread > 0.1 && compute.all_threads > 0.1);
    QCOMPARE(limits->read.size(), std::size_t{2});
    for (const auto& [bytes, gb_s] : limits->read) QVERIFY(bytes > 0 && gb_s > 0.01);
  }
  // Bytes are multiplied four and more at a time, on any set but the scalar one.
  void bytesAreFasterThanFloats() {
    if (detect_isa() == "scalar") QSKIP("this CPU has no AVX2");
    const auto limits = measured("avx2", 1);
    QVERIFY(limits);
    QVERIFY(limits->int8_gop_s.one_thread > limits->fma_gflop_s.one_thread);
  }
  void theSetAskedForIsMeasured() {
    const auto scalar = measured("scalar", 1);
    QVERIFY(scalar);
    QCOMPARE(scalar->isa, std::string("scalar"));
    std::string error;
    QVERIFY(!measure_limits({.isa = "sse9"}, error));
    QVERIFY(error.find("sse9") != std::string::npos);
  }
  void bandwidthIsThatOfTheWorkingSet() {
    MachineLimits limits;
    limits.read = {{1 << 20, 100}, {8 << 20, 50}, {32 << 20, 10}};
    QCOMPARE(limits.read_gb_s(1000), 100.0);
    QCOMPARE(limits.read_gb_s(9 << 20), 50.0);
    QCOMPARE(limits.read_gb_s(std::size_t{1} << 30), 10.0);
  }
};

QUIRE_TEST(TestLimits)
#include "tst_limits.moc"
