#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/runner/perplexity.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

std::vector<TokenId> some_tokens(int count, int vocab_size) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back((i * 37 + i * i * 11 + 5) % vocab_size);
  return tokens;
}

// Of tokens [first, size) of a chunk, from the logits of the whole prompt at once.
double mean_nll(FlatModel& model, const std::vector<TokenId>& chunk, int first) {
  std::vector<std::int32_t> rows;
  for (int row = first - 1; row + 1 < static_cast<int>(chunk.size()); ++row) rows.push_back(row);
  const auto logits = test::prompt_logits(model, chunk, rows, 16);
  const auto vocab = static_cast<std::size_t>(model.config().vocab_size);
  double total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(double{logits[i * vocab + v]});
    const auto next = static_cast<std::size_t>(chunk[static_cast<std::size_t>(rows[i]) + 1]);
    total += std::log(sum) - logits[i * vocab + next];
  }
  return total / static_cast<double>(rows.size());
}

}  // namespace

class TestPerplexity : public QObject {
  Q_OBJECT
 private slots:
  void scoresTheSecondHalfOfEveryChunk_data() {
    QTest::addColumn<int>("context");
    for (const int context : {4, 9, 40, 300}) QTest::addRow("%d", context) << context;
  }
  void scoresTheSecondHalfOfEveryChunk() {
    QFETCH(int, context);
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const auto text = some_tokens(2 * context + context / 2, tiny.model->config().vocab_size);
    std::vector<int> seen;
    const auto result = measure_perplexity(*tiny.model, text, {.context = context},
                                           [&](const auto& now) { seen.push_back(now.chunks); });
    QVERIFY(result.ok());
    QCOMPARE(seen, (std::vector<int>{1, 2}));
    QCOMPARE(result->scored_tokens, 2 * (context - context / 2 - 1));
    double wanted = 0;
    for (int i = 0; i < 2; ++i)
      wanted +=
          mean_nll(*tiny.model, {text.begin() + i * context, text.begin() + (i + 1) * context},
                   context / 2 + 1) /
          2;
    QVERIFY2(std::fabs(result->mean_nll - wanted) < 1e-5, qPrintable(QString::number(wanted)));
    QCOMPARE(result->perplexity, std::exp(result->mean_nll));
    QVERIFY(result->standard_error >= 0);
  }

  void chunksBeginWithBosWhenThereIsOne() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    auto text = some_tokens(40, tiny.model->config().vocab_size);
    const auto result = measure_perplexity(*tiny.model, text, {.context = 40, .bos = 3});
    text.front() = 3;
    const auto wanted = measure_perplexity(*tiny.model, text, {.context = 40});
    QVERIFY(result.ok() && wanted.ok());
    QCOMPARE(result->mean_nll, wanted->mean_nll);
  }

  void refusesWhatItCannotScore() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const auto text = some_tokens(40, tiny.model->config().vocab_size);
    const int too_long = tiny.model->config().context_length + 1;
    std::vector<TokenId> foreign = text;
    foreign[7] = tiny.model->config().vocab_size;
    QVERIFY(!measure_perplexity(*tiny.model, text, {.context = 41}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, text, {.context = 20, .chunks = 3}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, text, {.context = 3}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, text, {.context = too_long}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, text, {.context = 20, .chunks = -1}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, {}, {.context = 4}).ok());
    QVERIFY(!measure_perplexity(*tiny.model, foreign, {.context = 20}).ok());
  }

  // Against transformers in float32 on the same, dequantised weights; see
  // tests/tools/make_perplexity_fixture.py.
  void theStarterModelIsWithinHalfAPercentOfFloat32() {
    const std::string path = qEnvironmentVariable("QUIRE_STARTER_MODEL").toStdString();
    if (path.empty()) QSKIP("QUIRE_STARTER_MODEL does not name the starter model's file.");
    const auto backend = test::make_backend("cpu");
    const auto loaded = load_model(path, *backend, {});
    QVERIFY(loaded.ok());
    std::ifstream file(test::fixture("model/perplexity/starter.json"));
    const auto expected = nlohmann::json::parse(file);
    std::ostringstream text;
    text << std::ifstream(test::fixture("model/perplexity/text.txt")).rdbuf();
    const auto tokens = loaded->tokenizer->encode(
        text.str(),
        {.add_special = true, .specials = EncodeOptions::Specials::kNowhere, .special_ranges = {}});
    QCOMPARE(static_cast<int>(tokens.size()), expected["text_tokens"].get<int>());
    const auto result = measure_perplexity(
        *loaded->model, tokens, {.context = expected["context"], .chunks = expected["chunks"]});
    QVERIFY(result.ok());
    QCOMPARE(result->scored_tokens, expected["scored_tokens"].get<std::int64_t>());
    const double wanted = expected["perplexity"];
    QVERIFY2(std::fabs(result->perplexity / wanted - 1) < 0.005,
             qPrintable(QString("%1, not %2").arg(result->perplexity).arg(wanted)));
  }
};

QUIRE_TEST(TestPerplexity)
#include "tst_perplexity.moc"
