#include "engine/model/model.h"
#include "tests/model/schedule_checks.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

// A real model: the starter GGUF named by QUIRE_STARTER_MODEL.
class TestStarterModel : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase() {
    path_ = qEnvironmentVariable("QUIRE_STARTER_MODEL").toStdString();
    if (path_.empty()) QSKIP("QUIRE_STARTER_MODEL does not name the starter model's file.");
    backend_ = test::make_backend("cpu");
    auto loaded = load_model(path_, *backend_, {});
    QVERIFY2(loaded.ok(), loaded.ok() ? "" : loaded.error().message.c_str());
    weights_ = std::move(loaded).value();
  }

  void isWhatItSays() {
    QCOMPARE(weights_.description, "llama, 135 M parameters, Q4_1");
    QVERIFY(weights_.template_note.empty());
    QCOMPARE(weights_.model->config().context_length, 8192);
  }

  void knowsTheCapitalOfJapan() {
    const auto prompt = weights_.chat_template->render(
        {{"user", "Name the capital city of Japan in one English sentence.", ""}}, {});
    QVERIFY(prompt.ok());
    const std::vector<TokenId> ids = weights_.tokenizer->encode(
        prompt->text,
        {.specials = EncodeOptions::Specials::kRanges, .special_ranges = prompt->template_ranges});
    const auto run = test::run_alone(*weights_.model, {{ids, 8}});
    const std::string answer = weights_.tokenizer->decode(run.outputs[0]);
    QVERIFY2(answer.find("Tokyo") != std::string::npos, answer.c_str());
  }

  void answersDoNotDependOnTheSchedule() {
    const auto prompts = test::five_prompts(weights_.model->config().vocab_size);
    const auto alone = test::run_alone(*weights_.model, prompts);
    for (const auto& named : test::schedule_configs()) {
      const auto run = test::run_scheduled(*weights_.model, named.config, prompts);
      const std::string difference = test::first_difference(alone, run);
      QVERIFY2(difference.empty(), (named.name + ": " + difference).c_str());
      QCOMPARE(run.counters.preemptions > 0, named.preempts);
    }
  }

  void cleanupTestCase() { weights_ = {}; }

 private:
  std::string path_;
  std::unique_ptr<Backend> backend_;
  LoadedWeights weights_;
};

QUIRE_TEST(TestStarterModel)
#include "tst_starter_model.moc"
