#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model/open.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

struct Expected {
  std::vector<std::int32_t> prompt, rows;
  std::vector<float> logits;  // [rows, vocab]
};

Expected read_expected(const std::string& folder) {
  std::ifstream stream(folder + "/expected.json");
  const auto json = nlohmann::json::parse(stream);
  Expected expected{json["prompt"], json["rows"], {}};
  for (const auto& row : json["logits"])
    for (const float value : row) expected.logits.push_back(value);
  return expected;
}

}  // namespace

// Logits against Hugging Face transformers on tiny random checkpoints; see
// tests/tools/make_parity_fixtures.py.
class TestParity : public QObject {
  Q_OBJECT
 private slots:
  void logitsEqualTransformers_data() {
    QTest::addColumn<QString>("folder");
    QTest::addColumn<QString>("file");
    QTest::addColumn<QString>("backend");
    QTest::addColumn<double>("tolerance");  // of the largest logit
    for (const char* name : {"llama", "llama_llama3", "llama_linear", "qwen2", "qwen3"})
      for (const char* file : {"model.gguf", "hf"}) {
        const QString label = QString("%1 %2 ").arg(name, file);
        auto row = [&](const char* backend, double tolerance) {
          QTest::newRow(qPrintable(label + backend))
              << QString(name) << QString(file) << QString(backend) << tolerance;
        };
        row("reference", 1e-4);
        // F32 and F16 weights are float32 arithmetic there too, in another order. BF16 weights take
        // inputs rounded to BF16, which moves scores and outputs as rounding K and V does.
        const bool bf16 = qstrcmp(name, "llama_llama3") == 0 || qstrcmp(name, "qwen3") == 0;
        row("cpu f32", bf16 ? 0.024 : 1e-4);
        // K and V rounded to BF16 are off by 2^-9 of themselves at most. V passes that on once a
        // layer; K moves a score by 2^-9 of |q| |k|, about five here, and the softmax with it. Two
        // layers: 2 x (1 + 5) x 2^-9.
        row("cpu", 0.024);
      }
  }
  void logitsEqualTransformers() {
    QFETCH(QString, folder);
    QFETCH(QString, file);
    QFETCH(QString, backend);
    QFETCH(double, tolerance);
    const std::string path = test::fixture("model/parity/" + folder.toStdString());
    auto opened = open_model(path + "/" + file.toStdString());
    QVERIFY2(opened.ok(), opened.ok() ? "" : opened.error().message.c_str());
    const auto device = test::make_backend(backend.toStdString());
    auto model = make_flat_model(opened->config, opened->tensors, *device, {});
    QVERIFY(model.ok());

    const Expected expected = read_expected(path);
    const auto logits = test::prompt_logits(**model, expected.prompt, expected.rows, 4);
    QCOMPARE(logits.size(), expected.logits.size());
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      worst = std::max(worst, std::fabs(double{logits[i]} - expected.logits[i]));
      largest = std::max(largest, std::fabs(double{expected.logits[i]}));
    }
    QVERIFY2(worst <= tolerance * largest, qPrintable(QString("%1 of %2").arg(worst).arg(largest)));
  }
};

QUIRE_TEST(TestParity)
#include "tst_parity.moc"
