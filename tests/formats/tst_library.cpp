#include <filesystem>
#include <memory>

#include "engine/formats/gguf_split.h"
#include "engine/library.h"
#include "tests/formats/temp_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

using test::GgufWriter;
namespace fs = std::filesystem;

std::string q8_model() {
  return GgufWriter()
      .set("general.architecture", "llama")
      .add_tensor("a", 8, {32, 4}, std::string(4 * 34, 'x'))
      .add_tensor("b", 0, {4}, std::string(16, 'x'))
      .finish();
}

std::string shard(int number) {
  return GgufWriter()
      .set("split.no", static_cast<std::uint16_t>(number - 1))
      .set("split.count", std::uint16_t{2})
      .add_tensor("t" + std::to_string(number), 1, {8}, std::string(16, 'x'))
      .finish();
}

std::string safetensors() {
  const std::string header = R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + "abcd";
}

}  // namespace

class TestLibrary : public QObject {
  Q_OBJECT
 private slots:
  void init();
  void listsFilesSetsAndFoldersByName();
  void unreadableModelsAreListedWithANote();
  void readsExtraFoldersInPlace();
  void equalNamesGetNumbers();
  void foldersLinkedToThemselvesEnd();
  void resolvesNamesAndPaths();
  void starterMustHaveBeenFetched();
  void namesAreNeverJoinedToPaths_data();
  void namesAreNeverJoinedToPaths();

 private:
  std::unique_ptr<test::TempFiles> files_;
};

void TestLibrary::init() {
  files_ = std::make_unique<test::TempFiles>();
  qputenv("XDG_DATA_HOME", QByteArray::fromStdString(files_->path("data")));
}

void TestLibrary::listsFilesSetsAndFoldersByName() {
  files_->write("data/quire/models/small.Q8_0.gguf", q8_model());
  files_->write("data/quire/models/" + split_file_name("big", 1, 2), shard(1));
  files_->write("data/quire/models/" + split_file_name("big", 2, 2), shard(2));
  files_->write("data/quire/models/hf model/config.json", "{}");
  files_->write("data/quire/models/hf model/model.safetensors", safetensors());
  files_->write("data/quire/models/notes.txt", "x");
  files_->write("data/quire/models/half.gguf.part", "x");
  const auto models = list_models({});
  QCOMPARE(models.size(), std::size_t{3});
  QCOMPARE(models[0].name, std::string("big"));
  QCOMPARE(models[0].type, std::string("F16"));
  QCOMPARE(models[0].bytes, static_cast<std::uint64_t>(shard(1).size() + shard(2).size()));
  QCOMPARE(models[1].name, std::string("hf model"));
  QCOMPARE(models[1].type, std::string("BF16"));
  QCOMPARE(models[1].bytes, static_cast<std::uint64_t>(safetensors().size()));
  QCOMPARE(models[2].name, std::string("small.Q8_0"));
  QCOMPARE(models[2].type, std::string("Q8_0"));
  for (const LibraryEntry& model : models) QCOMPARE(model.note, std::string());
}

void TestLibrary::unreadableModelsAreListedWithANote() {
  files_->write("data/quire/models/broken.gguf", "GGUF");
  files_->write("data/quire/models/" + split_file_name("cut", 2, 2), shard(2));
  const auto models = list_models({});
  QCOMPARE(models.size(), std::size_t{2});
  QCOMPARE(models[0].type, std::string("?"));
  QVERIFY(models[0].note.find("'broken.gguf' is truncated") != std::string::npos);
  QVERIFY(models[1].note.find("'cut-00001-of-00002.gguf'") != std::string::npos);
}

void TestLibrary::readsExtraFoldersInPlace() {
  files_->write("elsewhere/maker/family/a.gguf", q8_model());
  files_->write("folder/config.json", "{}");
  files_->write("folder/model.safetensors", safetensors());
  const auto models =
      list_models({files_->path("elsewhere"), files_->path("folder/"), files_->path("absent")});
  QCOMPARE(models.size(), std::size_t{2});
  QCOMPARE(models[0].path, files_->path("elsewhere/maker/family/a.gguf"));
  QCOMPARE(models[1].name, std::string("folder"));
}

void TestLibrary::equalNamesGetNumbers() {
  files_->write("data/quire/models/a.gguf", q8_model());
  files_->write("elsewhere/a.gguf", q8_model());
  const auto models = list_models({files_->path("elsewhere")});
  QCOMPARE(models.size(), std::size_t{2});
  QCOMPARE(models[0].name, std::string("a"));
  QCOMPARE(models[1].name, std::string("a-2"));
  const auto second = resolve_model("a-2", {files_->path("elsewhere")});
  QVERIFY(second.ok());
  QCOMPARE(second->path, files_->path("elsewhere/a.gguf"));
}

void TestLibrary::foldersLinkedToThemselvesEnd() {
  files_->write("data/quire/models/a.gguf", q8_model());
  fs::create_directory_symlink(files_->path("data/quire/models"),
                               files_->path("data/quire/models/loop"));
  QCOMPARE(list_models({}).size(), std::size_t{1});
}

void TestLibrary::resolvesNamesAndPaths() {
  const std::string path = files_->write("data/quire/models/small.Q8_0.gguf", q8_model());
  files_->write("hf/config.json", "{}");
  const auto tiny = resolve_model("builtin:tiny", {});
  QVERIFY(tiny.ok());
  QCOMPARE(tiny->path, std::string("builtin:tiny"));
  const auto by_name = resolve_model("small.Q8_0", {});
  QVERIFY(by_name.ok());
  QCOMPARE(by_name->path, path);
  QCOMPARE(by_name->id, std::string("small.Q8_0"));
  const auto by_path = resolve_model(path, {});
  QVERIFY(by_path.ok());
  QCOMPARE(by_path->id, std::string("small.Q8_0"));
  const auto folder = resolve_model(files_->path("hf") + "/", {});
  QVERIFY(folder.ok());
  QCOMPARE(folder->id, std::string("hf"));
  const auto part = files_->write(split_file_name("big", 2, 2), shard(2));
  QCOMPARE(resolve_model(part, {})->id, std::string("big"));
}

void TestLibrary::starterMustHaveBeenFetched() {
  const auto absent = resolve_model("starter", {});
  QVERIFY(!absent.ok());
  QCOMPARE(absent.error().code, ErrorCode::kModelNotFound);
  const auto path = files_->write("data/quire/models/" + std::string(kStarterFile), q8_model());
  QCOMPARE(resolve_model("starter", {})->path, path);
}

void TestLibrary::namesAreNeverJoinedToPaths_data() {
  QTest::addColumn<QByteArray>("name");
  for (const char* name : {"", "secret", "../secret", "%2e%2e/secret", "a/../../secret.gguf",
                           "small.gguf", "\\\\host\\share"})
    QTest::newRow(name) << QByteArray(name);
  QTest::newRow("NUL") << QByteArray("small\0", 6);
  QTest::newRow("very long") << QByteArray(100'000, 'a');
}

void TestLibrary::namesAreNeverJoinedToPaths() {
  QFETCH(QByteArray, name);
  files_->write("data/quire/models/small.gguf", q8_model());
  files_->write("data/quire/secret.gguf", q8_model());
  const auto resolved = resolve_model(name.toStdString(), {});
  QVERIFY(!resolved.ok());
  QCOMPARE(resolved.error().code, ErrorCode::kModelNotFound);
  QVERIFY(resolved.error().message.size() < 300);
}

}  // namespace quire

using quire::TestLibrary;
QUIRE_TEST(TestLibrary)
#include "tst_library.moc"
