#include <QTemporaryDir>
#include <cmath>
#include <fstream>

#include "engine/memory.h"
#include "engine/model/model.h"
#include "engine/model_host.h"
#include "tests/model/support.h"
#include "tests/model/synthetic_gguf.h"
#include "tests/support/test_main.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUIRE_SANITIZED 1
#endif

using namespace quire;

namespace {

// What loading may take beside the weights: the tokenizer, and 2 MiB pages begun and not filled.
constexpr std::uint64_t kSlack = 16 << 20;

void restart_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace

class TestLoadMemory : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase() {
#ifdef QUIRE_SANITIZED
    QSKIP("A sanitizer's own memory counts as the process's");
#endif
  }
  void loadingNeverHoldsAModelTwice_data();
  void loadingNeverHoldsAModelTwice();
  void aLoadedModelIsResidentAsEstimated();
};

void TestLoadMemory::loadingNeverHoldsAModelTwice_data() {
  QTest::addColumn<bool>("tied");
  QTest::newRow("an output matrix of its own") << false;
  QTest::newRow("the output is the embedding") << true;
}

void TestLoadMemory::loadingNeverHoldsAModelTwice() {
  QFETCH(bool, tied);
  const QTemporaryDir dir;
  const std::string path = dir.path().toStdString() + "/model.gguf";
  const std::uint64_t file_bytes = test::write_synthetic_gguf({.tied = tied}, path);
  QVERIFY(file_bytes > 100 << 20);
  const auto backend = test::make_backend("cpu");
  const std::uint64_t before = process_memory().resident_bytes;
  restart_peak();
  const auto loaded = load_model(path, *backend, {});
  const ProcessMemory after = process_memory();
  QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().message.c_str());
  const std::uint64_t limit = file_bytes + file_bytes * 3 / 10 + kSlack;
  QVERIFY2(after.peak_bytes - before <= limit,
           qPrintable(QString("%1 of at most %2").arg(after.peak_bytes - before).arg(limit)));
  // Nothing of the file stays mapped in once it is packed.
  const std::uint64_t weights = loaded->model->weight_bytes();
  QVERIFY2(after.resident_bytes - before <= weights + kSlack,
           qPrintable(QString("%1 over %2").arg(after.resident_bytes - before).arg(weights)));
}

void TestLoadMemory::aLoadedModelIsResidentAsEstimated() {
  const QTemporaryDir dir;
  const std::string path = dir.path().toStdString() + "/model.gguf";
  test::write_synthetic_gguf({.layers = 4}, path);
  LoadOptions options;
  options.num_blocks = 2048;
  const auto host = ModelHost::create();
  const auto model = host->load_and_wait(path, "synthetic", options);
  QVERIFY2(model.ok(), model.ok() ? "" : model.error().message.c_str());
  const MemoryUse& memory = (*model)->memory;
  const auto estimate = static_cast<double>(memory.estimate());
  const auto resident = static_cast<double>(memory.resident);
  const std::string said = describe_memory(memory);
  QVERIFY2(std::abs(resident - estimate) <= 0.1 * estimate, said.c_str());
  // The parts count, not the program alone.
  QVERIFY2(memory.kv_pool > 100 << 20 && memory.weights > 50 << 20, said.c_str());
  QVERIFY2(memory.program < memory.estimate() / 2, said.c_str());
  QVERIFY(said.find("resident") != std::string::npos);
}

QUIRE_TEST(TestLoadMemory)
#include "tst_load_memory.moc"
