#include <cstring>
#include <limits>

#include "engine/formats/gguf.h"
#include "tests/formats/temp_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

using test::GgufWriter;

constexpr std::uint32_t kF32 = 0, kQ8_0 = 8;

GgufWriter small_model() {
  GgufWriter writer;
  writer.set("general.architecture", "llama")
      .set("general.name", "Small")
      .set("llama.block_count", std::uint32_t{2})
      .set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "c"})
      .add_tensor("token_embd.weight", kQ8_0, {32, 3}, std::string(3 * 34, 'x'))
      .add_tensor("output_norm.weight", kF32, {32}, std::string(32 * 4, 'y'));
  return writer;
}

}  // namespace

class TestGgufFile : public QObject {
  Q_OBJECT
 private slots:
  void givesEveryKindOfValue();
  void lookUpsOfAnotherKindGiveNothing();
  void placesTensorsOutermostDimensionFirst();
  void readsVersionsTwoAndThree();
  void readsVocabularyOnlyFiles();
  void honoursItsAlignment();
  void opensFromDisk();
  void quarterMillionTokensLoadAtOnce();
};

void TestGgufFile::givesEveryKindOfValue() {
  const std::string bytes = GgufWriter()
                                .set("u8", std::uint8_t{255})
                                .set("i8", std::int8_t{-128})
                                .set("u16", std::uint16_t{65535})
                                .set("i16", std::int16_t{-32768})
                                .set("u32", std::uint32_t{4294967295u})
                                .set("i32", std::int32_t{-2147483647})
                                .set("u64", std::uint64_t{1} << 62)
                                .set("i64", std::numeric_limits<std::int64_t>::min())
                                .set("f32", 0.5f)
                                .set("f64", 1e300)
                                .set("yes", true)
                                .set("no", false)
                                .set("text", std::string_view("a\0b", 3))
                                .set("ints", std::vector<std::int32_t>{1, -2, 3})
                                .set("bytes", std::vector<std::uint8_t>{0, 255})
                                .set("floats", std::vector<float>{0.25f, -1.0f})
                                .set("strings", std::vector<std::string>{"", "x"})
                                .set("none", std::vector<std::string>{})
                                .finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY2(file.ok(), file.ok() ? "" : file.error().message.c_str());
  const GgufFile& gguf = **file;
  QCOMPARE(gguf.get_int("u8"), std::optional<std::int64_t>(255));
  QCOMPARE(gguf.get_int("i8"), std::optional<std::int64_t>(-128));
  QCOMPARE(gguf.get_int("u16"), std::optional<std::int64_t>(65535));
  QCOMPARE(gguf.get_int("i16"), std::optional<std::int64_t>(-32768));
  QCOMPARE(gguf.get_int("u32"), std::optional<std::int64_t>(4294967295));
  QCOMPARE(gguf.get_int("i32"), std::optional<std::int64_t>(-2147483647));
  QCOMPARE(gguf.get_int("u64"), std::optional<std::int64_t>(std::int64_t{1} << 62));
  QCOMPARE(gguf.get_int("i64"),
           std::optional<std::int64_t>(std::numeric_limits<std::int64_t>::min()));
  QCOMPARE(gguf.get_float("f32"), std::optional<double>(0.5));
  QCOMPARE(gguf.get_float("f64"), std::optional<double>(1e300));
  QCOMPARE(gguf.get_float("u8"), std::optional<double>(255));
  QCOMPARE(gguf.get_bool("yes"), std::optional<bool>(true));
  QCOMPARE(gguf.get_bool("no"), std::optional<bool>(false));
  QCOMPARE(*gguf.get_string("text"), std::string("a\0b", 3));
  QCOMPARE(*gguf.get_ints("ints"), (std::vector<std::int64_t>{1, -2, 3}));
  QCOMPARE(*gguf.get_ints("bytes"), (std::vector<std::int64_t>{0, 255}));
  QCOMPARE(*gguf.get_floats("floats"), (std::vector<double>{0.25, -1.0}));
  QCOMPARE(*gguf.get_strings("strings"), (std::vector<std::string>{"", "x"}));
  QVERIFY(gguf.get_strings("none")->empty());
}

void TestGgufFile::lookUpsOfAnotherKindGiveNothing() {
  const std::string bytes = GgufWriter()
                                .set("int", std::int32_t{1})
                                .set("yes", true)
                                .set("text", "1")
                                .set("ints", std::vector<std::int32_t>{1})
                                .finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(file.ok());
  const GgufFile& gguf = **file;
  QVERIFY(!gguf.get_int("text") && !gguf.get_int("yes") && !gguf.get_int("absent"));
  QVERIFY(!gguf.get_bool("int") && !gguf.get_float("yes") && !gguf.get_float("text"));
  QVERIFY(gguf.get_string("int") == nullptr && gguf.get_strings("ints") == nullptr);
  QVERIFY(gguf.get_floats("ints") == nullptr && gguf.get_ints("int") == nullptr);
}

void TestGgufFile::placesTensorsOutermostDimensionFirst() {
  const std::string bytes = small_model().finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(file.ok());
  const GgufFile& gguf = **file;
  QCOMPARE(gguf.tensors().size(), std::size_t{2});
  const TensorInfo* embedding = gguf.find("token_embd.weight");
  QVERIFY(embedding != nullptr);
  QCOMPARE(embedding->dtype, DType::kQ8_0);
  QCOMPARE(embedding->shape, (std::vector<std::int64_t>{3, 32}));
  QCOMPARE(embedding->bytes, std::size_t{3 * 34});
  QCOMPARE(*static_cast<const char*>(embedding->data), 'x');
  const TensorInfo* norm = gguf.find("output_norm.weight");
  QVERIFY(norm != nullptr);
  QCOMPARE(*static_cast<const char*>(norm->data), 'y');
  QCOMPARE(gguf.total_bytes(), std::size_t{3 * 34 + 32 * 4});
  QVERIFY(gguf.find("absent") == nullptr);
}

void TestGgufFile::readsVersionsTwoAndThree() {
  for (const std::uint32_t version : {2u, 3u}) {
    GgufWriter writer = small_model();
    writer.version = version;
    const std::string bytes = writer.finish();
    const auto file = GgufFile::parse(bytes);
    QVERIFY(file.ok());
    QCOMPARE((*file)->version(), static_cast<int>(version));
  }
}

void TestGgufFile::readsVocabularyOnlyFiles() {
  const std::string bytes =
      GgufWriter().set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"}).finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(file.ok());
  QVERIFY((*file)->tensors().empty());
  QCOMPARE((*file)->get_strings("tokenizer.ggml.tokens")->size(), std::size_t{2});
}

void TestGgufFile::honoursItsAlignment() {
  GgufWriter writer;
  const std::string bytes = writer.set_alignment(64)
                                .add_tensor("a", kF32, {1}, std::string(4, 'a'))
                                .add_tensor("b", kF32, {1}, std::string(4, 'b'))
                                .finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(file.ok());
  const auto* a = static_cast<const char*>((*file)->find("a")->data);
  const auto* b = static_cast<const char*>((*file)->find("b")->data);
  QCOMPARE(b - a, std::ptrdiff_t{64});
  QCOMPARE((a - bytes.data()) % 64, std::ptrdiff_t{0});
  QCOMPARE(*b, 'b');
}

void TestGgufFile::opensFromDisk() {
  const test::TempFiles files;
  const std::string path = files.write("small.gguf", small_model().finish());
  const auto file = GgufFile::open(path);
  QVERIFY(file.ok());
  QCOMPARE((*file)->files(), std::vector<std::string>{path});
  QCOMPARE(*(*file)->get_string("general.name"), std::string("Small"));
  QCOMPARE(*static_cast<const char*>((*file)->find("output_norm.weight")->data), 'y');
  QVERIFY((*file)->check_intact().ok());
}

// Not timed; the test list's own limit would show quadratic work.
void TestGgufFile::quarterMillionTokensLoadAtOnce() {
  std::vector<std::string> tokens;
  for (int i = 0; i < 256 * 1024; ++i) tokens.push_back("token" + std::to_string(i));
  const std::string bytes =
      GgufWriter()
          .set("tokenizer.ggml.tokens", tokens)
          .set("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f))
          .set("tokenizer.ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1))
          .finish();
  const auto file = GgufFile::parse(bytes);
  QVERIFY(file.ok());
  QCOMPARE((*file)->get_strings("tokenizer.ggml.tokens")->back(), tokens.back());
  QCOMPARE((*file)->get_floats("tokenizer.ggml.scores")->size(), tokens.size());
}

}  // namespace quire

using quire::TestGgufFile;
QUIRE_TEST(TestGgufFile)
#include "tst_gguf.moc"
