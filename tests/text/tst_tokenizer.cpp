#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/formats/gguf.h"
#include "engine/text/bpe.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/normalizer.h"
#include "engine/text/tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"
#include "tests/text/tokenizer_golden.h"

using namespace quire;
using namespace quire::test;

namespace {

using Ids = std::vector<TokenId>;

// Byte-level: the 256 bytes, two merges and three marked tokens.
GgufWriter small_gguf(const char* pre = "gpt-2") {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(spell_bytes(std::string(1, static_cast<char>(byte))));
  for (const char* text : {"he", "llo", "<|eot|>", "<tool>", "<|im_end|>"}) tokens.push_back(text);
  tokens.push_back("ll");
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[258] = types[260] = 3;  // control
  types[259] = 4;               // user defined
  GgufWriter writer;
  writer.set("general.architecture", "llama").set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", pre).set("tokenizer.ggml.tokens", tokens);
  writer.set("tokenizer.ggml.token_type", types);
  writer.set("tokenizer.ggml.merges", std::vector<std::string>{"h e", "l l", "ll o"});
  writer.set("tokenizer.ggml.eos_token_id", 258U);
  return writer;
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& bytes) {
  auto file = GgufFile::parse(bytes);
  if (!file.ok()) return file.error();
  return tokenizer_from_gguf(**file);
}

std::string error_of(const std::string& bytes) {
  const auto tokenizer = load(bytes);
  return tokenizer.ok() ? "" : tokenizer.error().message;
}

EncodeOptions ranges(std::span<const ByteRange> list) {
  EncodeOptions options;
  options.specials = EncodeOptions::Specials::kRanges;
  options.special_ranges = list;
  return options;
}

}  // namespace

class TestTokenizer : public QObject {
  Q_OBJECT
 private slots:
  void byteTokenizerIsBytesAndFourControlTokens() {
    const auto tokenizer = make_byte_tokenizer();
    QCOMPARE(tokenizer->vocab_size(), 260);
    QCOMPARE(tokenizer->encode("a\xFF<|im_end|>", {}), (Ids{'a', 0xFF, 259}));
    QCOMPARE(tokenizer->token_text(258), std::string_view("<|im_start|>"));
    QCOMPARE(tokenizer->token_bytes(258), std::string_view());
    QCOMPARE(tokenizer->token_bytes(0), std::string_view("\0", 1));
    QCOMPARE(tokenizer->bos_id(), 256);
    QCOMPARE(tokenizer->end_ids(), (Ids{257, 259}));
    QVERIFY(tokenizer->is_control(257) && !tokenizer->is_control('a'));
  }

  void specialsInRangesMatchOnlyWhollyInsideOne() {
    const auto tokenizer = make_byte_tokenizer();
    const std::string text = "<|im_end|><|im_end|>";
    const auto count = [&](const std::vector<ByteRange>& list) {
      const auto ids = tokenizer->encode(text, ranges(list));
      return std::count(ids.begin(), ids.end(), 259);
    };
    QCOMPARE(count({{0, 20}}), 2);
    QCOMPARE(count({{0, 10}}), 1);
    QCOMPARE(count({{10, 20}}), 1);
    QCOMPARE(count({{0, 9}, {11, 20}}), 0);
    QCOMPARE(count({{0, 5}, {5, 10}}), 0);  // one match may not span two ranges
    QCOMPARE(count({}), 0);
    QCOMPARE(tokenizer->decode(tokenizer->encode(text, ranges({}))), text);
  }

  void specialsNowhereIsPlainText() {
    const auto tokenizer = make_byte_tokenizer();
    EncodeOptions options;
    options.specials = EncodeOptions::Specials::kNowhere;
    QCOMPARE(tokenizer->encode("<|eos|>", options).size(), std::size_t{7});
  }

  void tokensThatAreNotSpecialMatchEverywhere() {
    auto tokenizer = load(small_gguf().finish());
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    EncodeOptions options;
    options.specials = EncodeOptions::Specials::kNowhere;
    QCOMPARE((*tokenizer)->encode("<tool>", options), (Ids{259}));
    QCOMPARE((*tokenizer)->token_bytes(259), std::string_view("<tool>"));
  }

  // Merges that spell a control token never make it out of plain text.
  void mergesNeverMakeAControlToken() {
    GgufWriter writer;
    std::vector<std::string> tokens{"<", "s", ">", "<s", "<s>"};
    writer.set("tokenizer.ggml.model", "llama").set("tokenizer.ggml.tokens", tokens);
    writer.set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1, 1, 3});
    writer.set("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2});
    writer.set("tokenizer.ggml.add_space_prefix", false);
    auto tokenizer = load(writer.finish());
    QVERIFY2(tokenizer.ok(), tokenizer.ok() ? "" : tokenizer.error().message.c_str());
    EncodeOptions options;
    options.specials = EncodeOptions::Specials::kNowhere;
    QCOMPARE((*tokenizer)->encode("<s>", options), (Ids{3, 2}));
    QCOMPARE((*tokenizer)->encode("<s>", {}), (Ids{4}));
  }

  void ggufNamesTheEndsOfATurn() {
    auto writer = small_gguf();
    writer.set("tokenizer.ggml.eot_token_id", 259U);
    auto tokenizer = load(writer.finish());
    QVERIFY(tokenizer.ok());
    QCOMPARE((*tokenizer)->end_ids(), (Ids{258, 259, 260}));
    QCOMPARE((*tokenizer)->encode("hello", {}), (Ids{256, 257}));
  }

  void unknownKindsAreNamed() {
    QVERIFY(error_of(small_gguf("martian").finish()).find("martian") != std::string::npos);
    GgufWriter writer;
    writer.set("tokenizer.ggml.model", "rwkv");
    QVERIFY(error_of(writer.finish()).find("rwkv") != std::string::npos);
    QVERIFY(!error_of(GgufWriter().set("general.name", "x").finish()).empty());
  }

  void damagedGgufTokenizersAreRefused_data() {
    QTest::addColumn<QByteArray>("bytes");
    const auto row = [](const char* name, const GgufWriter& writer) {
      QTest::newRow(name) << QByteArray::fromStdString(writer.finish());
    };
    const auto base = [] {
      GgufWriter writer;
      writer.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", "gpt-2");
      return writer;
    };
    const std::vector<std::string> tokens{"a", "b", "ab"};
    row("no tokens", base());
    row("no merges", base().set("tokenizer.ggml.tokens", tokens));
    row("unknown merge", base()
                             .set("tokenizer.ggml.tokens", tokens)
                             .set("tokenizer.ggml.merges", std::vector<std::string>{"a c"}));
    row("half a merge", base()
                            .set("tokenizer.ggml.tokens", tokens)
                            .set("tokenizer.ggml.merges", std::vector<std::string>{"ab"}));
    row("types too short", base()
                               .set("tokenizer.ggml.tokens", tokens)
                               .set("tokenizer.ggml.token_type", std::vector<std::int32_t>{1}));
    row("eos outside", base()
                           .set("tokenizer.ggml.tokens", tokens)
                           .set("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
                           .set("tokenizer.ggml.eos_token_id", 3U));
    row("long token",
        base().set("tokenizer.ggml.tokens", std::vector<std::string>{std::string(65537, 'x')}));
    row("no scores",
        GgufWriter().set("tokenizer.ggml.model", "llama").set("tokenizer.ggml.tokens", tokens));
  }
  void damagedGgufTokenizersAreRefused() {
    QFETCH(QByteArray, bytes);
    QVERIFY(!error_of(bytes.toStdString()).empty());
  }

  // Work is counted, not timed: candidates stay below three per byte however long the piece.
  void mergingALongPieceIsNotQuadratic_data() {
    QTest::addColumn<QString>("unit");
    for (const char* unit : {"a", "ab", "hello", "aab"}) QTest::newRow(unit) << QString(unit);
  }
  void mergingALongPieceIsNotQuadratic() {
    QFETCH(QString, unit);
    StringPool texts;
    for (const char* text :
         {"a", "b", "aa", "ab", "aaaa", "abab", "h", "e", "l", "o", "he", "ll", "llo", "hello"})
      texts.push(text);
    const Vocabulary vocabulary(std::move(texts));
    const std::vector<double> scores{0, 0, -1, -2, -3, -4, 0, 0, 0, 0, -5, -6, -7, -8};
    const std::vector<bool> all(scores.size(), true);
    const BpeModel model(vocabulary, merges_from_scores(vocabulary, scores, all), {}, all);
    std::string text;
    while (text.size() < (1U << 18)) text += unit.toStdString();
    BpeScratch scratch;
    Ids ids;
    model.encode(text, scratch, ids);
    QVERIFY(!ids.empty());
    QVERIFY(scratch.num_candidates <= 3 * text.size());
  }

  // A run of combining marks in falling order is what makes naive canonical ordering quadratic.
  void normalizingALongRunOfMarksTerminates() {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += i % 2 ? "\xCC\xA3" : "\xCC\x81";
    const std::string once = to_unicode_form(text, UnicodeForm::kNfc);
    QCOMPARE(once.size(), text.size());
    QCOMPARE(once.substr(0, 2), std::string("\xCC\xA3"));
  }

  void encodesTheSameFromManyThreads() {
    auto tokenizer = load(small_gguf("qwen2").finish());
    QVERIFY(tokenizer.ok());
    const std::string text =
        "hello \xC3\xA9"
        "e\xCC\x81 123\n\n <tool> \xFF hello";
    const Ids expected = (*tokenizer)->encode(text, {});
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        for (int round = 0; round < 50; ++round)
          wrong += (*tokenizer)->encode(text, {}) != expected;
      });
    for (auto& thread : threads) thread.join();
    QCOMPARE(wrong.load(), 0);
  }

  void anyBytesSurviveARoundTrip() {
    auto tokenizer = load(small_gguf().finish());
    QVERIFY(tokenizer.ok());
    for (const std::string& record : read_corpus()) {
      EncodeOptions options;
      options.specials = EncodeOptions::Specials::kNowhere;
      std::string bytes;
      for (const TokenId id : (*tokenizer)->encode(record, options))
        bytes += (*tokenizer)->token_bytes(id);
      QCOMPARE(bytes, record);
    }
  }
};

QUIRE_TEST(TestTokenizer)
#include "tst_tokenizer.moc"
