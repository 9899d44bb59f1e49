#include <nlohmann/json.hpp>

#include "engine/text/tokenizer.h"
#include "tests/support/test_main.h"
#include "tests/text/tokenizer_golden.h"

using namespace quire;
using namespace quire::test;
using nlohmann::json;

// Small tokenizers, one per component of tokenizer.json, against the Python package
// (tests/tools/make_tokenizer_cases.py).
class TestTokenizerCases : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase() {
    cases_ = json::parse(read_file(fixture("text/data/tokenizer_cases.json")));
  }

  void encodesAndDecodesAsThePythonPackage_data() {
    QTest::addColumn<int>("index");
    for (int i = 0; i < static_cast<int>(cases_.size()); ++i)
      QTest::newRow(cases_[static_cast<std::size_t>(i)]["name"].get<std::string>().c_str()) << i;
  }
  void encodesAndDecodesAsThePythonPackage() {
    QFETCH(int, index);
    const json& c = cases_[static_cast<std::size_t>(index)];
    auto tokenizer = tokenizer_from_json(c["tokenizer"].dump(), {});
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    for (const json& text : c["texts"]) {
      EncodeOptions options;
      options.add_special = true;
      const auto ids = (*tokenizer)->encode(text["text"].get<std::string>(), options);
      QCOMPARE(json(ids).dump() + " " + text["text"].dump(),
               text["ids"].dump() + " " + text["text"].dump());
      QCOMPARE((*tokenizer)->decode(ids), text["decoded"].get<std::string>());
    }
  }

 private:
  json cases_;
};

QUIRE_TEST(TestTokenizerCases)
#include "tst_tokenizer_cases.moc"
