#include "kernels/limits.h"

#include "kernels/backend.h"
#include "tests/support/test_main.h"

using namespace quire;

class TestLimits : public QObject {
  Q_OBJECT
 private slots:
  void everyLimitIsMeasured() {
    const MachineLimits limits = measure_limits(2, 1, std::size_t{8} << 20);
    QCOMPARE(limits.num_threads, 2);
    QCOMPARE(limits.isa, detect_isa());
    QVERIFY(limits.fma_gflop_s > 0.1);
    QCOMPARE(limits.read.size(), std::size_t{2});
    for (const auto& [bytes, gb_s] : limits.read) QVERIFY(bytes > 0 && gb_s > 0.01);
  }
};

QUIRE_TEST(TestLimits)
#include "tst_limits.moc"
