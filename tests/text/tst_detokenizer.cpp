#include <numeric>

#include "engine/text/bpe_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

// A SentencePiece-style vocabulary whose decoder drops the leading space.
std::unique_ptr<Tokenizer> barred_tokenizer() {
  StringPool texts;
  for (const char* text : {"<s>", "\xE2\x96\x81hi", "hi", "<0xE2>", "<0x82>", "<0xAC>", "<0xFF>"})
    texts.push(text);
  TokenizerParts parts;
  parts.vocabulary = Vocabulary(std::move(texts));
  parts.added.push_back({.id = 0, .content = "<s>", .special = true});
  parts.bpe.byte_fallback = true;
  parts.spelling = TokenSpelling::kBars;
  parts.strips_leading_space = true;
  return make_bpe_tokenizer(std::move(parts));
}

std::vector<TokenId> bytes_as_ids(const QByteArray& bytes) {
  std::vector<TokenId> ids;
  for (const char c : bytes) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

}  // namespace

class TestDetokenizer : public QObject {
  Q_OBJECT
 private slots:
  void givesOutWholeCharactersOnly() {
    const auto tokenizer = make_byte_tokenizer();
    StreamDetokenizer stream(*tokenizer);
    QCOMPARE(stream.push(0xF0), std::string());
    QCOMPARE(stream.push(0x9F), std::string());
    QCOMPARE(stream.push(0x98), std::string());
    QCOMPARE(stream.push(0x80), std::string("\xF0\x9F\x98\x80"));
    QCOMPARE(stream.push('a'), std::string("a"));
    QCOMPARE(stream.finish(), std::string());
  }

  // U+FFFD per maximal subpart, as browsers and Python's errors="replace" do.
  void replacesInvalidBytes_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("text");
    QTest::newRow("lone continuation") << QByteArray("a\x80z") << QString("a\uFFFDz");
    QTest::newRow("cut short") << QByteArray("\xE2\x82z") << QString("\uFFFDz");
    QTest::newRow("unfinished at the end") << QByteArray("z\xF0\x9F\x98") << QString("z\uFFFD");
    QTest::newRow("overlong") << QByteArray("\xC0\xAF") << QString("\uFFFD\uFFFD");
    QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << QString("\uFFFD\uFFFD\uFFFD");
    QTest::newRow("above the last")
        << QByteArray("\xF4\x90\x80\x80") << QString("\uFFFD\uFFFD\uFFFD\uFFFD");
    QTest::newRow("mixed") << QByteArray("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64")
                           << QString(
                                  "\uFFFD\uFFFD\uFFFD"
                                  "b\uFFFD"
                                  "c\uFFFD\uFFFD"
                                  "d");
  }
  void replacesInvalidBytes() {
    QFETCH(QByteArray, bytes);
    QFETCH(QString, text);
    const auto tokenizer = make_byte_tokenizer();
    const auto ids = bytes_as_ids(bytes);
    QCOMPARE(QString::fromStdString(tokenizer->decode(ids)), text);
    StreamDetokenizer stream(*tokenizer);
    std::string streamed;
    for (const TokenId id : ids) streamed += stream.push(id);
    QCOMPARE(QString::fromStdString(streamed + stream.finish()), text);
  }

  void streamedTextIsValidAndEqualsTheWhole() {
    const auto tokenizer = make_byte_tokenizer();
    std::uint32_t random = 1;
    for (int round = 0; round < 200; ++round) {
      std::vector<TokenId> ids;
      for (int i = 0; i < 24; ++i) {
        random = random * 1664525 + 1013904223;
        ids.push_back(
            static_cast<TokenId>((random >> 16) % 2 ? (random >> 24) : 128 + (random >> 25)));
      }
      StreamDetokenizer stream(*tokenizer);
      std::string streamed;
      for (const TokenId id : ids) {
        const std::string part = stream.push(id);
        QCOMPARE(QString::fromStdString(part).toStdString(), part);
        streamed += part;
      }
      QCOMPARE(streamed + stream.finish(), tokenizer->decode(ids));
    }
  }

  void controlTokensAreSilentAndDoNotBreakCharacters() {
    const auto tokenizer = make_byte_tokenizer();
    StreamDetokenizer stream(*tokenizer);
    QCOMPARE(stream.push(0xC3), std::string());
    QCOMPARE(stream.push(259), std::string());
    QCOMPARE(stream.push(0xA9), std::string("\xC3\xA9"));
    QCOMPARE(stream.push(100000), std::string());
    QCOMPARE(stream.push(-1), std::string());
  }

  void onlyTheFirstLeadingSpaceIsDropped() {
    const auto tokenizer = barred_tokenizer();
    StreamDetokenizer stream(*tokenizer);
    QCOMPARE(stream.push(0), std::string());
    QCOMPARE(stream.push(1), std::string("hi"));
    QCOMPARE(stream.push(1), std::string(" hi"));
    const std::vector<TokenId> ids{0, 1, 1, 2};
    QCOMPARE(tokenizer->decode(ids), std::string("hi hihi"));
    QCOMPARE(tokenizer->decode(ids, false), std::string("<s> hi hihi"));
  }

  void fallbackBytesJoinIntoCharacters() {
    const auto tokenizer = barred_tokenizer();
    StreamDetokenizer stream(*tokenizer);
    QCOMPARE(stream.push(3), std::string());
    QCOMPARE(stream.push(4), std::string());
    QCOMPARE(stream.push(5), std::string("\xE2\x82\xAC"));
    QCOMPARE(stream.push(6), std::string("\xEF\xBF\xBD"));
  }
};

QUIRE_TEST(TestDetokenizer)
#include "tst_detokenizer.moc"
