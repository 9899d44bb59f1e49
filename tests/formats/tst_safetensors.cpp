#include <cstring>

#include "engine/formats/hf_folder.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

std::string length_of(std::uint64_t size) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_of(header.size()) + header + std::string(data_bytes, 'd');
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& begin, const std::string& end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape +
         "],\"data_offsets\":[" + begin + "," + end + "]}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& begin,
                const std::string& end, std::size_t data_bytes) {
  return file_of("{" + entry("t", dtype, shape, begin, end) + "}", data_bytes);
}

}  // namespace

class TestSafetensors : public QObject {
  Q_OBJECT
 private slots:
  void givesTensorsInDataOrder();
  void emptyAndScalarTensorsAreFine();
  void liesAreRefusedWithASentence_data();
  void liesAreRefusedWithASentence();
  void truncationAtEveryByteIsRefused();
};

void TestSafetensors::givesTensorsInDataOrder() {
  const std::string bytes = file_of(
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("a", "F16", "2,3", "16", "28") + "," +
          entry("b", "F32", "4", "0", "16") + "," + entry("c", "BF16", "1", "28", "30") + "}  ",
      30);
  const auto tensors = parse_safetensors(bytes);
  QVERIFY2(tensors.ok(), tensors.ok() ? "" : tensors.error().message.c_str());
  QCOMPARE(tensors->size(), std::size_t{3});
  QCOMPARE((*tensors)[0].name, std::string("b"));
  QCOMPARE((*tensors)[1].dtype, DType::kF16);
  QCOMPARE((*tensors)[1].shape, (std::vector<std::int64_t>{2, 3}));
  QCOMPARE((*tensors)[1].bytes, std::size_t{12});
  const char* data = bytes.data() + bytes.size() - 30;
  QCOMPARE(static_cast<const char*>((*tensors)[2].data), data + 28);
}

void TestSafetensors::emptyAndScalarTensorsAreFine() {
  const std::string bytes = file_of("{" + entry("empty", "F32", "0,4", "4", "4") + "," +
                                        entry("empty too", "F32", "3,0", "4", "4") + "," +
                                        entry("scalar", "F32", "", "0", "4") + "}",
                                    4);
  const auto tensors = parse_safetensors(bytes);
  QVERIFY2(tensors.ok(), tensors.ok() ? "" : tensors.error().message.c_str());
  QCOMPARE((*tensors)[0].name, std::string("scalar"));
  QVERIFY((*tensors)[0].shape.empty());
  QCOMPARE((*tensors)[1].bytes, std::size_t{0});
}

void TestSafetensors::liesAreRefusedWithASentence_data() {
  QTest::addColumn<QByteArray>("bytes");
  QTest::addColumn<QString>("phrase");
  const auto row = [](const char* name, const std::string& bytes, const char* phrase) {
    QTest::newRow(name) << QByteArray(bytes.data(), static_cast<int>(bytes.size()))
                        << QString(phrase);
  };
  const auto header = [](const std::string& text) { return file_of(text, 0); };

  row("empty", "", "has only 0 bytes");
  row("seven bytes", "1234567", "has only 7 bytes");
  row("header length 2^64-1", length_of(~std::uint64_t{0}) + "{}", "18446744073709551615 bytes");
  row("header length above 100 MB", length_of(100'000'001) + "{}", "more than 100000000");
  row("header longer than the file", length_of(3) + "{}", "header should be 3 bytes");
  row("header of no bytes", header(""), "does not begin with '{'");
  row("header starting with a space", header(" {}"), "does not begin with '{'");
  row("header that is an array", header("[]"), "does not begin with '{'");
  row("header cut short", header("{\"t\":"), "not valid JSON");
  row("header with text after it", header("{} x"), "not valid JSON");
  row("header that is not UTF-8", header("{\"\xff\":1}"), "not valid JSON");
  row("header nested too deep", header("{\"a\":" + std::string(1'000'000, '[')),
      "deeper than 64 levels");
  row("a number out of range", header("{\"a\":1e999}"), "number that is out of range");
  row("tensor twice",
      file_of("{" + entry("t", "F32", "1", "0", "4") + "," + entry("t", "F32", "1", "4", "8") + "}",
              8),
      "the key 't' twice");
  row("field twice", header("{\"t\":{\"dtype\":\"F32\",\"dtype\":\"F16\"}}"), "'dtype' twice");
  row("metadata that is no object", header("{\"__metadata__\":1}"), "metadata");
  row("metadata with a number", header("{\"__metadata__\":{\"a\":1}}"), "metadata");
  row("entry that is no object", header("{\"t\":1}"), "no object");
  row("no type", header("{\"t\":{\"shape\":[],\"data_offsets\":[0,0]}}"), "without a type");
  row("type that is a number", header("{\"t\":{\"dtype\":1}}"), "without a type");
  row("unknown type", one("F7", "1", "0", "4", 4), "type 'F7', which the format does not define");
  row("no shape", header("{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}"), "without a shape");
  row("negative dimension", one("F32", "-1", "0", "4", 4), "dimension that is no count");
  row("fractional dimension", one("F32", "1.5", "0", "4", 4), "dimension that is no count");
  row("dimension above int64", one("F32", "18446744073709551615", "0", "4", 4),
      "dimension that is no count");
  row("shape product wraps to 4", one("F32", "8589934592,2147483649", "0", "16", 16),
      "more elements than can be counted");
  row("byte size wraps", one("F32", "4611686018427387904", "0", "0", 0), "in 0 bytes");
  row("no offsets", header("{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}"), "without data offsets");
  row("three offsets",
      file_of("{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4),
      "without data offsets");
  row("begin after end", one("F32", "1", "4", "0", 4), "offsets that are no range");
  row("negative begin", one("F32", "1", "-4", "0", 4), "offsets that are no range");
  row("offsets past the end", one("F32", "2", "0", "8", 4), "ends at byte 8 of 4 bytes");
  row("size not that of the shape", one("F32", "2", "0", "4", 4), "2 F32 elements in 4 bytes");
  row("hole before", one("F32", "1", "4", "8", 8), "4 unused bytes before tensor 't'");
  row("data left over", one("F32", "1", "0", "4", 6),
      "6 bytes of data, of which its tensors use 4");
  row("data without tensors", file_of("{}", 4), "4 bytes of data, of which its tensors use 0");
  row("overlap",
      file_of("{" + entry("a", "F32", "2", "0", "8") + "," + entry("b", "F32", "1", "4", "8") + "}",
              8),
      "tensor 'b' overlapping");
  row("same place twice",
      file_of("{" + entry("a", "F32", "1", "0", "4") + "," + entry("b", "F32", "1", "0", "4") + "}",
              4),
      "overlapping");
  row("unsupported type", one("I64", "1", "0", "8", 8), "stores tensor 't' as type I64");
  row("LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS");
  row("GGUF", std::string("GGUF\3\0\0\0\0\0\0\0", 12), "is a GGUF file");
  row("zip", "PK\x03\x04 0123456789", "is a zip archive");
}

void TestSafetensors::liesAreRefusedWithASentence() {
  QFETCH(QByteArray, bytes);
  QFETCH(QString, phrase);
  const auto tensors =
      parse_safetensors({bytes.constData(), static_cast<std::size_t>(bytes.size())});
  QVERIFY(!tensors.ok());
  QVERIFY2(QString::fromStdString(tensors.error().message).contains(phrase),
           tensors.error().message.c_str());
  QCOMPARE(tensors.error().code,
           phrase.contains("I64") ? ErrorCode::kUnsupportedModel : ErrorCode::kBadModelFile);
}

void TestSafetensors::truncationAtEveryByteIsRefused() {
  const std::string whole = file_of(
      "{" + entry("a", "F32", "2", "0", "8") + "," + entry("b", "F16", "2", "8", "12") + "}", 12);
  QVERIFY(parse_safetensors(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size)
    QVERIFY2(!parse_safetensors(whole.substr(0, size)).ok(), std::to_string(size).c_str());
}

}  // namespace quire

using quire::TestSafetensors;
QUIRE_TEST(TestSafetensors)
#include "tst_safetensors.moc"
