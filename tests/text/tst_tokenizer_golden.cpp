#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>

#include "engine/formats/gguf.h"
#include "engine/text/tokenizer.h"
#include "tests/support/test_main.h"
#include "tests/text/tokenizer_golden.h"

using namespace quire;
using namespace quire::test;

namespace {

struct Case {
  const char* name;
  const char* pre;  // "": SentencePiece-style
  bool add_space_prefix;
};
constexpr Case kCases[] = {
    {"llama2", "", true},
    {"gemma3", "", false},
    {"llama3_1", "llama-bpe", false},
    {"qwen3", "qwen2", false},
    {"deepseek_v3", "deepseek-v3", false},
};

QString ids_text(const std::vector<TokenId>& ids) {
  QStringList list;
  for (const TokenId id : ids) list << QString::number(id);
  return list.join(' ');
}

}  // namespace

// Token for token what the Python package `tokenizers` gives on
// tests/text/data/tokenizer_corpus.bin.
class TestTokenizerGolden : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase() {
    corpus_ = read_corpus();
    QVERIFY(corpus_.size() >= 2000);
  }

  void jsonEncodesAsThePythonPackage_data() { cases(); }
  void jsonEncodesAsThePythonPackage() {
    QFETCH(int, index);
    const Case& c = kCases[index];
    QString skip;
    const std::string json = load(c.name, skip);
    if (!skip.isEmpty()) QSKIP(qPrintable(skip));
    QVERIFY2(!json.empty(),
             "QUIRE_TEST_DATA is set, but tokenizers/NAME/tokenizer.json is missing");
    auto tokenizer = tokenizer_from_json(json, {});
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    compare(**tokenizer, c.name, true);
  }

  void ggufEncodesAsThePythonPackage_data() { cases(); }
  void ggufEncodesAsThePythonPackage() {
    QFETCH(int, index);
    const Case& c = kCases[index];
    QString skip;
    const std::string json = load(c.name, skip);
    if (!skip.isEmpty()) QSKIP(qPrintable(skip));
    QVERIFY2(!json.empty(),
             "QUIRE_TEST_DATA is set, but tokenizers/NAME/tokenizer.json is missing");
    const std::string bytes = gguf_from_tokenizer_json(json, c.pre, c.add_space_prefix);
    auto file = GgufFile::parse(bytes);
    QVERIFY2(file.ok(), file.ok() ? "" : file.error().message.c_str());
    auto tokenizer = tokenizer_from_gguf(**file);
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    compare(**tokenizer, c.name, false);
  }

  void starterModelEncodesAsThePythonPackage() {
    const char* path = std::getenv("QUIRE_STARTER_MODEL");
    if (path == nullptr || *path == '\0')
      QSKIP("QUIRE_STARTER_MODEL does not name the starter model's file");
    auto file = GgufFile::open(path);
    QVERIFY2(file.ok(), file.ok() ? "" : file.error().message.c_str());
    auto tokenizer = tokenizer_from_gguf(**file);
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    compare(**tokenizer, "smollm2", true);
    QCOMPARE((*tokenizer)->bos_id(), 1);
    QCOMPARE((*tokenizer)->adds_bos(), false);
    QCOMPARE((*tokenizer)->end_ids(), (std::vector<TokenId>{2, 0}));
  }

 private:
  static void cases() {
    QTest::addColumn<int>("index");
    for (int i = 0; i < static_cast<int>(std::size(kCases)); ++i)
      QTest::newRow(kCases[i].name) << i;
  }

  std::string load(const std::string& name, QString& skip) {
    const TestData data = test_data("tokenizers/" + name + "/tokenizer.json");
    if (data.path.empty()) {
      skip = "QUIRE_TEST_DATA does not name the folder with the large test files";
      return {};
    }
    return data.missing ? std::string() : read_file(data.path);
  }

  void compare(const Tokenizer& tokenizer, const std::string& name, bool with_long_line) {
    std::vector<Golden> golden = read_golden(name);
    QCOMPARE(golden.size(), corpus_.size() + 1);
    if (!with_long_line) golden.pop_back();
    for (std::size_t i = 0; i < golden.size(); ++i) {
      const auto ids = tokenizer.encode(i < corpus_.size() ? corpus_[i] : long_line(), {});
      if (hash_ids(ids) == golden[i].hash) continue;
      const QByteArray record =
          i < corpus_.size() ? QByteArray::fromStdString(corpus_[i]) : "long line";
      QFAIL(qPrintable(QString("record %1 (%2)\n got %3\nwant %4")
                           .arg(i)
                           .arg(QString::fromLatin1(record.left(200).toPercentEncoding(" ")))
                           .arg(ids_text(ids).left(2000), ids_text(golden[i].ids))));
    }
  }

  std::vector<std::string> corpus_;
};

QUIRE_TEST(TestTokenizerGolden)
#include "tst_tokenizer_golden.moc"
