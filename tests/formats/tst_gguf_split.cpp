#include <filesystem>

#include "engine/formats/gguf.h"
#include "engine/formats/gguf_split.h"
#include "tests/formats/temp_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

using test::GgufWriter;

GgufWriter part(int number, int count, int total_tensors, const std::string& tensor) {
  GgufWriter writer;
  if (number == 1) writer.set("general.architecture", "llama");
  writer.set("split.no", static_cast<std::uint16_t>(number - 1))
      .set("split.count", static_cast<std::uint16_t>(count))
      .set("split.tensors.count", std::int32_t{total_tensors})
      .add_tensor(tensor, 0, {1}, std::string(4, static_cast<char>('0' + number)));
  return writer;
}

void write_set(const test::TempFiles& files) {
  for (int number = 1; number <= 3; ++number)
    files.write(split_file_name("model", number, 3),
                part(number, 3, 3, "t" + std::to_string(number)).finish());
}

std::string error_of(const std::string& path) {
  const auto file = GgufFile::open(path);
  return file.ok() ? "opened" : file.error().message;
}

}  // namespace

class TestGgufSplit : public QObject {
  Q_OBJECT
 private slots:
  void namesAreTakenApart();
  void opensFromAnyShard();
  void missingShardsAreNamed();
  void shardsMustAgree();
  void tensorCountIsChecked();
  void aTensorInTwoShardsIsRefused();
  void aRenamedShardIsRefused();
  void aLoneFileMayBeNamedLikeAShard();
};

void TestGgufSplit::namesAreTakenApart() {
  const auto name = parse_split_name("/models/a-00002-of-00003.gguf");
  QVERIFY(name.has_value());
  QCOMPARE(name->prefix, std::string("/models/a"));
  QCOMPARE(name->number, 2);
  QCOMPARE(name->count, 3);
  QCOMPARE(split_file_name(name->prefix, 3, 3), std::string("/models/a-00003-of-00003.gguf"));
  for (const char* other :
       {"a.gguf", "a-2-of-3.gguf", "a-00004-of-00003.gguf", "-of-.gguf", "",
        "a-00000-of-00003.gguf", "a-0000x-of-00003.gguf", "a-+0001-of-00003.gguf",
        "a-00001-of-00003.bin", "a-00001-OF-00003.gguf"})
    QVERIFY2(!parse_split_name(other).has_value(), other);
}

void TestGgufSplit::opensFromAnyShard() {
  const test::TempFiles files;
  write_set(files);
  for (int number = 1; number <= 3; ++number) {
    const auto file = GgufFile::open(files.path(split_file_name("model", number, 3)));
    QVERIFY(file.ok());
    QCOMPARE((*file)->files().size(), std::size_t{3});
    QCOMPARE((*file)->files()[1], files.path("model-00002-of-00003.gguf"));
    QCOMPARE(*(*file)->get_string("general.architecture"), std::string("llama"));
    QCOMPARE((*file)->tensors().size(), std::size_t{3});
    QCOMPARE(*static_cast<const char*>((*file)->find("t3")->data), '3');
    QCOMPARE((*file)->total_bytes(), std::size_t{12});
  }
}

void TestGgufSplit::missingShardsAreNamed() {
  const test::TempFiles files;
  write_set(files);
  std::filesystem::remove(files.path("model-00002-of-00003.gguf"));
  const auto file = GgufFile::open(files.path("model-00001-of-00003.gguf"));
  QVERIFY(!file.ok());
  QCOMPARE(file.error().code, ErrorCode::kModelNotFound);
  QCOMPARE(file.error().message,
           std::string("1 of the model's 3 parts is missing: 'model-00002-of-00003.gguf'."));
}

void TestGgufSplit::shardsMustAgree() {
  const test::TempFiles files;
  write_set(files);
  files.write("model-00002-of-00003.gguf", part(3, 3, 3, "t2").finish());
  QCOMPARE(error_of(files.path("model-00001-of-00003.gguf")),
           std::string("'model-00002-of-00003.gguf' should be part 2 of 3 of a model, but says it "
                       "is part 3 of 3."));
  files.write("model-00002-of-00003.gguf", part(2, 4, 3, "t2").finish());
  QVERIFY(error_of(files.path("model-00003-of-00003.gguf")).find("part 2 of 4") !=
          std::string::npos);
  files.write("model-00002-of-00003.gguf", GgufWriter().set("a", 1).finish());
  QVERIFY(error_of(files.path("model-00001-of-00003.gguf")).find("does not say") !=
          std::string::npos);
}

void TestGgufSplit::tensorCountIsChecked() {
  const test::TempFiles files;
  write_set(files);
  files.write("model-00001-of-00003.gguf", part(1, 3, 7, "t1").finish());
  QCOMPARE(error_of(files.path("model-00001-of-00003.gguf")),
           std::string("'model-00001-of-00003.gguf' says that its parts hold 7 tensors together; "
                       "they hold 3."));
}

void TestGgufSplit::aTensorInTwoShardsIsRefused() {
  const test::TempFiles files;
  write_set(files);
  files.write("model-00002-of-00003.gguf", part(2, 3, 3, "t1").finish());
  QVERIFY(error_of(files.path("model-00001-of-00003.gguf")).find("'t1' twice") !=
          std::string::npos);
}

void TestGgufSplit::aRenamedShardIsRefused() {
  const test::TempFiles files;
  write_set(files);
  std::filesystem::rename(files.path("model-00001-of-00003.gguf"), files.path("model.gguf"));
  QVERIFY(error_of(files.path("model.gguf")).find("one of 3 parts") != std::string::npos);
}

void TestGgufSplit::aLoneFileMayBeNamedLikeAShard() {
  const test::TempFiles files;
  const std::string path = files.write("model-00001-of-00001.gguf", part(1, 1, 1, "t1").finish());
  const auto file = GgufFile::open(path);
  QVERIFY(file.ok());
  QCOMPARE((*file)->files().size(), std::size_t{1});
}

}  // namespace quire

using quire::TestGgufSplit;
QUIRE_TEST(TestGgufSplit)
#include "tst_gguf_split.moc"
