#include "engine/text/pretokenizer_regex.h"
#include "engine/text/tokenizer.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

// A byte-level tokenizer.json of three tokens with one member replaced.
std::string with(const std::string& member, const std::string& value) {
  std::vector<std::pair<std::string, std::string>> members = {
      {"added_tokens", R"([{"id":3,"content":"<s>","special":true}])"},
      {"normalizer", "null"},
      {"pre_tokenizer", R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})"},
      {"post_processor", "null"},
      {"decoder", R"({"type":"ByteLevel"})"},
      {"model", R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})"}};
  std::string out;
  for (auto& [name, text] : members)
    out += (out.empty() ? "{\"" : ",\"") + name + "\":" + (name == member ? value : text);
  return out + "}";
}

std::string error_of(const std::string& json, const std::string& config = {}) {
  const auto tokenizer = tokenizer_from_json(json, config);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

}  // namespace

class TestTokenizerJson : public QObject {
  Q_OBJECT
 private slots:
  void aPlainFileLoads() {
    const auto tokenizer = tokenizer_from_json(with("", ""), {});
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    QCOMPARE((*tokenizer)->encode("abba<s>", {}), (std::vector<TokenId>{2, 1, 0, 3}));
    QCOMPARE((*tokenizer)->vocab_size(), 4);
  }

  void unsupportedComponentsAreNamed_data() {
    QTest::addColumn<QString>("member");
    QTest::addColumn<QString>("value");
    QTest::addColumn<QString>("named");
    const auto row = [](const char* member, const char* value, const char* named) {
      QTest::newRow(named) << member << value << named;
    };
    row("model", R"({"type":"Unigram","vocab":[]})", "Unigram");
    row("model", R"({"type":"BPE","end_of_word_suffix":"</w>"})", "end_of_word_suffix");
    row("model", R"({"type":"BPE","dropout":0.1})", "dropout");
    row("normalizer", R"({"type":"Lowercase"})", "Lowercase");
    row("normalizer", R"({"type":"Sequence","normalizers":[{"type":"Nmt"}]})", "Nmt");
    row("pre_tokenizer", R"({"type":"BertPreTokenizer"})", "BertPreTokenizer");
    row("pre_tokenizer", R"({"type":"Split","pattern":{"String":"x"},"behavior":"Odd"})", "Odd");
    row("pre_tokenizer",
        R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})",
        "Digits after ByteLevel");
    row("decoder", R"({"type":"WordPiece"})", "WordPiece");
    row("post_processor", R"({"type":"BertProcessing"})", "BertProcessing");
  }
  void unsupportedComponentsAreNamed() {
    QFETCH(QString, member);
    QFETCH(QString, value);
    QFETCH(QString, named);
    const auto result = tokenizer_from_json(with(member.toStdString(), value.toStdString()), {});
    QVERIFY(!result.ok());
    QCOMPARE(result.error().code, ErrorCode::kUnsupportedModel);
    QVERIFY2(QString::fromStdString(result.error().message).contains(named),
             result.error().message.c_str());
  }

  void damagedFilesAreRefused_data() {
    QTest::addColumn<QString>("json");
    const auto model = [](const char* name, const char* value) {
      QTest::newRow(name) << QString::fromStdString(with("model", value));
    };
    QTest::newRow("empty") << "";
    QTest::newRow("not json") << "{";
    QTest::newRow("an array") << "[]";
    QTest::newRow("deep") << QString("[").repeated(100'000);
    QTest::newRow("no model") << "{}";
    model("negative id", R"({"type":"BPE","vocab":{"a":-1},"merges":[]})");
    model("huge id", R"({"type":"BPE","vocab":{"a":4194304},"merges":[]})");
    model("id of a wrong type", R"({"type":"BPE","vocab":{"a":"0"},"merges":[]})");
    model("no tokens", R"({"type":"BPE","vocab":[],"merges":{}})");
    model("half a merge", R"({"type":"BPE","vocab":{"a":0},"merges":["a"]})");
    model("three in a merge", R"({"type":"BPE","vocab":{"a":0},"merges":[["a","a","a"]]})");
    model("nested merge", R"({"type":"BPE","vocab":{"a":0},"merges":[[["a","a"]]]})");
    model("unknown merge", R"({"type":"BPE","vocab":{"a":0},"merges":["a a"]})");
    model("unknown unk", R"({"type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"u"})");
    QTest::newRow("bad pattern") << QString::fromStdString(with(
        "pre_tokenizer", R"({"type":"Split","pattern":{"Regex":"*a"},"behavior":"Isolated"})"));
    QTest::newRow("template id outside") << QString::fromStdString(
        with("post_processor",
             R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],)"
             R"("special_tokens":{"x":{"id":"x","ids":[9],"tokens":["x"]}}})"));
    QTest::newRow("empty added token")
        << QString::fromStdString(with("added_tokens", R"([{"id":3,"content":""}])"));
  }
  void damagedFilesAreRefused() {
    QFETCH(QString, json);
    QVERIFY(!error_of(json.toStdString()).empty());
  }

  void configurationNamesBosAndEos() {
    const std::string config =
        R"({"bos_token":{"content":"<s>"},"eos_token":"ab","add_bos_token":true})";
    const auto tokenizer = tokenizer_from_json(with("", ""), config);
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    QCOMPARE((*tokenizer)->bos_id(), 3);
    QCOMPARE((*tokenizer)->eos_id(), 2);
    QVERIFY((*tokenizer)->adds_bos());
    EncodeOptions options;
    options.add_special = true;
    QCOMPARE((*tokenizer)->encode("b", options), (std::vector<TokenId>{3, 1}));
    QVERIFY(!error_of(with("", ""), "{").empty());
  }

  void patternsAreTranslated_data() {
    QTest::addColumn<QString>("from");
    QTest::addColumn<QString>("to");
    QTest::newRow("space") << R"(\s[^\s])"
                           << R"(\p{White_Space}[^\p{White_Space}])";
    QTest::newRow("script") << R"(\p{Han}\P{Lu}\p{^N})"
                            << R"(\p{sc:Han}\P{Lu}\p{^N})";
    QTest::newRow("word")
        << R"(\w[\w-])"
        << R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}][\p{Alphabetic}\p{M}\p{Nd}\p{Pc}-])";
    QTest::newRow("code point") << R"(\u00e9\x{41}\x41)"
                                << R"(\x{00e9}\x{41}\x41)";
    QTest::newRow("hexadecimal digit") << R"(\h)"
                                       << "[0-9a-fA-F]";
    QTest::newRow("untouched") << R"((?i:'s|'t)| ?[^a\[\]]{1,3}|x(?!\r)|é++)"
                               << R"((?i:'s|'t)| ?[^a\[\]]{1,3}|x(?!\r)|é++)";
  }
  void patternsAreTranslated() {
    QFETCH(QString, from);
    QFETCH(QString, to);
    const auto result = translate_regex(from.toStdString());
    QVERIFY2(result.ok(), result.ok() ? "" : result.error().message.c_str());
    QCOMPARE(QString::fromStdString(*result), to);
  }

  void patternsOfOtherMeaningAreRefused_data() {
    QTest::addColumn<QString>("pattern");
    for (const char* pattern : {R"([a-z&&[^b]])", R"([[:alpha:]])", R"((a)\1)", R"(\k<a>)",
                                R"(\p{N}{1,3}+)", R"((*SKIP))", R"(\C)", R"(\R)", R"((?x:a))",
                                R"((?<n>a))", R"([a)", R"(\)", R"(a{,3})", R"(\bx)"})
      QTest::newRow(pattern) << QString(pattern);
  }
  void patternsOfOtherMeaningAreRefused() {
    QFETCH(QString, pattern);
    QVERIFY(!translate_regex(pattern.toStdString()).ok());
  }

  // A pattern that backtracks exponentially ends the search instead of hanging.
  void hostilePatternsGiveUp() {
    const auto regex = Regex::compile("(?:a|a)*(?:a|aa)*b");
    QVERIFY(regex.ok());
    std::vector<Span> matches;
    (*regex)->find_all(std::string(64, 'a'), matches);
    QVERIFY(matches.empty());
  }
};

QUIRE_TEST(TestTokenizerJson)
#include "tst_tokenizer_json.moc"
