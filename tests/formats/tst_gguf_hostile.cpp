#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>

#include "engine/formats/gguf.h"
#include "tests/formats/temp_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUIRE_SANITIZED 1
#endif

namespace quire {
namespace {

using test::GgufWriter;

constexpr std::uint32_t kF32 = 0, kQ4_0 = 2;
constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

template <typename T>
std::string number(T value) {
  return GgufWriter::number(value);
}

GgufWriter with_tensor(const std::vector<std::uint64_t>& dims, std::uint32_t type,
                       std::uint64_t offset, std::size_t data_bytes) {
  GgufWriter writer;
  writer.add_tensor("first", kF32, {1}, std::string(data_bytes, 'd'));
  writer.put_tensor("second", type, dims, offset);
  return writer;
}

std::string array_body(std::uint32_t type, std::uint64_t count, const std::string& elements) {
  return number(type) + number(count) + elements;
}

}  // namespace

class TestGgufHostile : public QObject {
  Q_OBJECT
 private slots:
  void liesAreRefusedWithASentence_data();
  void liesAreRefusedWithASentence();
  void truncationAtEveryByteIsRefused();
  void everyFlippedByteIsHarmless();
  void wrongFilesEachGetASentence_data();
  void wrongFilesEachGetASentence();
  void unreadableFilesAreRefused();
  void tooLittleMemoryIsAnError();
  void messagesAreOneLineOfValidText();
};

void TestGgufHostile::liesAreRefusedWithASentence_data() {
  QTest::addColumn<QByteArray>("bytes");
  QTest::addColumn<int>("code");
  QTest::addColumn<QString>("phrase");
  const auto row = [](const char* name, const std::string& bytes, const char* phrase,
                      ErrorCode code = ErrorCode::kBadModelFile) {
    QTest::newRow(name) << QByteArray(bytes.data(), static_cast<int>(bytes.size()))
                        << static_cast<int>(code) << QString(phrase);
  };
  const auto changed = [](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer;
    change(writer);
    return writer.finish();
  };
  const auto key = [&](std::uint32_t type, const std::string& body) {
    return changed([&](GgufWriter& w) { w.put_key("k", type, body); });
  };
  const auto alignment = [&](auto value) {
    return changed([&](GgufWriter& w) { w.set("general.alignment", value); });
  };
  const auto unsupported = ErrorCode::kUnsupportedModel;

  row("key count huge", changed([](GgufWriter& w) { w.extra_keys = kHuge; }), "metadata keys");
  row("key count beyond the file", changed([](GgufWriter& w) { w.extra_keys = 1000; }),
      "claims 1000 metadata keys");
  row("tensor count huge", changed([](GgufWriter& w) { w.extra_tensors = kHuge; }), "tensors");
  row("tensor count beyond the file", changed([](GgufWriter& w) { w.extra_tensors = 5; }),
      "claims 5 tensors");
  row("version 1", changed([](GgufWriter& w) { w.version = 1; }), "GGUF version 1", unsupported);
  row("version 4", changed([](GgufWriter& w) { w.version = 4; }), "GGUF version 4", unsupported);
  row("big-endian", changed([](GgufWriter& w) { w.version = 0x03000000; }), "big-endian",
      unsupported);

  row("string length 2^64-1", key(GgufWriter::kString, number(kHuge) + "abc"),
      "claims 18446744073709551615 bytes of text where 3 are left");
  row("string length one too long", key(GgufWriter::kString, number(std::uint64_t{4}) + "abc"),
      "claims 4 bytes of text where 3 are left");
  row("string in array too long",
      key(GgufWriter::kArray, array_body(GgufWriter::kString, 1, number(kHuge))), "bytes of text");
  row("array length huge", key(GgufWriter::kArray, array_body(GgufWriter::kUint8, kHuge, "abcd")),
      "elements");
  row("array length whose bytes wrap",
      key(GgufWriter::kArray,
          array_body(GgufWriter::kFloat64, (std::uint64_t{1} << 61) + 1, "12345678")),
      "elements where 8 bytes are left");
  row("array of an unknown type", key(GgufWriter::kArray, array_body(99, 1, "abcdefgh")),
      "array of type 99");
  row("array of a negative type", key(GgufWriter::kArray, array_body(0xffffffffu, 1, "abcdefgh")),
      "array of type 4294967295");
  row("array of arrays",
      key(GgufWriter::kArray,
          array_body(GgufWriter::kArray, 1, array_body(GgufWriter::kUint8, 1, "a"))),
      "arrays of arrays", unsupported);
  row("value of an unknown type", key(13, "abcdefgh"), "of type 13");
  row("value of a negative type", key(0xffffffffu, "abcdefgh"), "of type 4294967295");
  row("unsigned number above int64", key(GgufWriter::kUint64, number(kHuge)), "out of range");
  row("bool that is 2", key(GgufWriter::kBool, "\x02"), "must be 0 or 1");
  row("key without a name", changed([](GgufWriter& w) { w.set("", 1); }), "without a name");
  row("key name of 70,000 bytes", changed([](GgufWriter& w) { w.set(std::string(70000, 'k'), 1); }),
      "at most 65536");
  row("key twice", changed([](GgufWriter& w) { w.set("a", 1).set("b", 1).set("a", 2); }),
      "the metadata key 'a' twice");

  row("alignment 0", alignment(std::uint32_t{0}), "alignment of 0");
  row("alignment not a power of two", alignment(std::uint32_t{24}), "alignment of 24");
  row("alignment below 8", alignment(std::uint32_t{4}), "alignment of 4");
  row("alignment negative", alignment(std::int32_t{-32}), "alignment of -32");
  row("alignment huge", alignment(std::uint64_t{1} << 62), "alignment of");
  row("alignment as text", alignment("32"), "alignment that is no number");

  row("five dimensions", with_tensor({1, 1, 1, 1, 1}, kF32, 32, 64).finish(), "5 dimensions");
  row("no dimensions", with_tensor({}, kF32, 32, 64).finish(), "0 dimensions");
  row("dimension 0", with_tensor({4, 0}, kF32, 32, 64).finish(), "a dimension of 0");
  row("dimension 2^63", with_tensor({std::uint64_t{1} << 63}, kF32, 32, 64).finish(),
      "more elements than can be counted");
  row("dimension product wraps to 4",
      with_tensor({std::uint64_t{1} << 33, (std::uint64_t{1} << 31) + 1}, kF32, 32, 64).finish(),
      "more elements than can be counted");
  row("byte size wraps", with_tensor({std::uint64_t{1} << 62}, kF32, 32, 64).finish(),
      "tensor 'second' needs");
  row("rows not whole blocks", with_tensor({33}, kQ4_0, 32, 64).finish(), "not a multiple of 32");
  row("tensor offset beyond the file", with_tensor({1}, kF32, kHuge - 31, 64).finish(),
      "tensor 'second' needs 4 bytes");
  row("tensor end beyond the file", with_tensor({9}, kF32, 32, 64).finish(),
      "needs 36 bytes at offset 32 of a data section of 64 bytes");
  row("tensor offset unaligned", with_tensor({1}, kF32, 33, 64).finish(), "not aligned to 32");
  row("tensors overlap", with_tensor({1}, kF32, 0, 64).finish(), "overlapping");
  row("tensor twice", changed([](GgufWriter& w) {
        w.add_tensor("t", kF32, {1}, "abcd").add_tensor("t", kF32, {1}, "abcd");
      }),
      "the tensor 't' twice");
  row("tensor without a name", changed([](GgufWriter& w) { w.add_tensor("", kF32, {1}, "abcd"); }),
      "without a name");
  row("tensor name of 300 bytes",
      changed([](GgufWriter& w) { w.add_tensor(std::string(300, 't'), kF32, {1}, "abcd"); }),
      "at most 256");
  row("known but unsupported type", with_tensor({256}, 22, 32, 64).finish(), "type IQ2_S",
      unsupported);
  row("unknown type", with_tensor({1}, 99, 32, 64).finish(), "type number 99", unsupported);
  row("negative type", with_tensor({1}, 0xffffffffu, 32, 64).finish(), "type number 4294967295",
      unsupported);
}

void TestGgufHostile::liesAreRefusedWithASentence() {
  QFETCH(QByteArray, bytes);
  QFETCH(int, code);
  QFETCH(QString, phrase);
  const auto file = GgufFile::parse({bytes.constData(), static_cast<std::size_t>(bytes.size())});
  QVERIFY(!file.ok());
  QVERIFY2(QString::fromStdString(file.error().message).contains(phrase),
           file.error().message.c_str());
  QCOMPARE(static_cast<int>(file.error().code), code);
}

void TestGgufHostile::truncationAtEveryByteIsRefused() {
  GgufWriter writer;
  const std::string whole = writer.set("general.architecture", "llama")
                                .set("tokens", std::vector<std::string>{"a", "bc"})
                                .set("scores", std::vector<float>{1, 2})
                                .add_tensor("a", kF32, {4}, std::string(16, 'a'))
                                .add_tensor("b", kF32, {2, 2}, std::string(16, 'b'))
                                .finish();
  QVERIFY(GgufFile::parse(whole).ok());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);  // its own allocation: sanitizers see overruns
    QVERIFY2(!GgufFile::parse(part).ok(), std::to_string(size).c_str());
  }
}

void TestGgufHostile::everyFlippedByteIsHarmless() {
  GgufWriter writer;
  const std::string whole = writer.set("k", std::vector<std::string>{"a", "bc"})
                                .set("n", std::uint32_t{7})
                                .add_tensor("a", kQ4_0, {32, 2}, std::string(36, 'a'))
                                .finish();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(value);
      const auto file = GgufFile::parse(changed);
      if (!file.ok()) continue;
      for (const TensorInfo& tensor : (*file)->tensors()) {
        const auto* begin = static_cast<const char*>(tensor.data);
        QVERIFY(begin >= changed.data() && begin + tensor.bytes <= changed.data() + changed.size());
      }
    }
  }
}

void TestGgufHostile::wrongFilesEachGetASentence_data() {
  QTest::addColumn<QByteArray>("bytes");
  QTest::addColumn<QString>("sentence");
  QTest::newRow("empty") << QByteArray() << "'model.gguf' is empty.";
  QTest::newRow("LFS pointer")
      << QByteArray("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 98362432\n")
      << "'model.gguf' is a Git LFS pointer, not the model itself: fetch it with 'git lfs pull'.";
  QTest::newRow("web page") << QByteArray("<!DOCTYPE html><html></html>")
                            << "'model.gguf' is a web page, not a GGUF file.";
  QTest::newRow("zip") << QByteArray("PK\x03\x04 and more")
                       << "'model.gguf' is a zip archive or PyTorch checkpoint, not a GGUF file.";
  QTest::newRow("old GGML") << QByteArray("tjgg\x01\0\0\0", 8)
                            << "'model.gguf' is a file of the old GGJT format, not a GGUF file.";
  QTest::newRow("safetensors") << QByteArray("\x10\0\0\0\0\0\0\0{\"a\": 1}        ", 24)
                               << "'model.gguf' is a safetensors file, not a GGUF file.";
  QTest::newRow("text") << QByteArray("hello, this is no model")
                        << "'model.gguf' is not a GGUF file.";
  QTest::newRow("three bytes") << QByteArray("GGU") << "'model.gguf' is not a GGUF file.";
}

void TestGgufHostile::wrongFilesEachGetASentence() {
  QFETCH(QByteArray, bytes);
  QFETCH(QString, sentence);
  const test::TempFiles files;
  const auto file = GgufFile::open(files.write("model.gguf", bytes.toStdString()));
  QVERIFY(!file.ok());
  QCOMPARE(QString::fromStdString(file.error().message), sentence);
  QCOMPARE(file.error().code, ErrorCode::kBadModelFile);
}

void TestGgufHostile::unreadableFilesAreRefused() {
  const test::TempFiles files;
  const auto absent = GgufFile::open(files.path("absent.gguf"));
  QCOMPARE(absent.error().code, ErrorCode::kModelNotFound);
  QCOMPARE(absent.error().message, std::string("'absent.gguf' does not exist."));

  const auto folder = GgufFile::open(files.folder());
  QCOMPARE(folder.error().code, ErrorCode::kInvalidArgument);
  QVERIFY(folder.error().message.find("is a folder") != std::string::npos);

  const auto device = GgufFile::open("/dev/null");
  QCOMPARE(device.error().code, ErrorCode::kInvalidArgument);

  const auto with_nul = GgufFile::open(std::string("/dev/null\0.gguf", 15));
  QCOMPARE(with_nul.error().code, ErrorCode::kModelNotFound);

  const std::string secret = files.write("secret.gguf", "GGUF");
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  if (access(secret.c_str(), R_OK) == 0) QSKIP("running as root, which may read everything");
  const auto denied = GgufFile::open(secret);
  QCOMPARE(denied.error().code, ErrorCode::kPermissionDenied);
  QCOMPARE(denied.error().message, std::string("You have no permission to read 'secret.gguf'."));
}

void TestGgufHostile::tooLittleMemoryIsAnError() {
#ifdef QUIRE_SANITIZED
  QSKIP("sanitizers need the address space themselves");
#else
  const test::TempFiles files;
  const std::string path = files.write("large.gguf", GgufWriter().set("k", 1).finish());
  std::filesystem::resize_file(path, std::uintmax_t{1} << 36);  // sparse
  rlimit before = {};
  QCOMPARE(getrlimit(RLIMIT_AS, &before), 0);
  rlimit small = before;
  small.rlim_cur = rlim_t{1} << 35;
  QCOMPARE(setrlimit(RLIMIT_AS, &small), 0);
  const auto file = GgufFile::open(path);
  setrlimit(RLIMIT_AS, &before);
  QVERIFY(!file.ok());
  QCOMPARE(file.error().code, ErrorCode::kOutOfMemory);
  QCOMPARE(file.error().message, std::string("There is not enough memory to open 'large.gguf'."));
#endif
}

void TestGgufHostile::messagesAreOneLineOfValidText() {
  GgufWriter writer;
  const std::string name = std::string("bad\n\x1b[31m\xff\xfe\0", 12) + std::string(150, 'x');
  const std::string bytes = writer.add_tensor(name, 99, {1}, "abcd").finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(!file.ok());
  const QString message = QString::fromUtf8(file.error().message.c_str());
  QVERIFY(message.contains("'bad??[31m???xxx"));
  QVERIFY(message.contains("xxx...'"));
  QVERIFY(!message.contains(QChar(QChar::ReplacementCharacter)));
}

}  // namespace quire

using quire::TestGgufHostile;
QUIRE_TEST(TestGgufHostile)
#include "tst_gguf_hostile.moc"
