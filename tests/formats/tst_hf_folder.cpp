#include <cstring>
#include <filesystem>

#include "engine/formats/hf_folder.h"
#include "tests/formats/temp_files.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

std::string weights(const std::string& tensor, char fill, const std::string& padding = "") {
  const std::string header =
      "{\"" + tensor + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}" + padding;
  std::string bytes(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(bytes.data(), &size, 8);
  return bytes + header + std::string(4, fill);
}

void write_single(const test::TempFiles& files) {
  files.write("config.json", "{\"model_type\":\"llama\"}");
  files.write("model.safetensors", weights("a", 'a'));
}

void write_sharded(const test::TempFiles& files) {
  files.write("config.json", "{}");
  files.write(kIndex, R"({"metadata":{"total_size":8},"weight_map":{)"
                      R"("a":"model-00001-of-00002.safetensors",)"
                      R"("b":"model-00002-of-00002.safetensors"}})");
  files.write("model-00001-of-00002.safetensors", weights("a", 'a'));
  files.write("model-00002-of-00002.safetensors", weights("b", 'b'));
}

std::string error_of(const test::TempFiles& files) {
  const auto folder = HfFolder::open(files.folder());
  return folder.ok() ? "opened" : folder.error().message;
}

}  // namespace

class TestHfFolder : public QObject {
  Q_OBJECT
 private slots:
  void opensASingleFile();
  void readsTheTextFilesBesideTheWeights();
  void opensShards();
  void symbolicLinksOfASnapshotWork();
  void unalignedDataIsMovedToAlignedMemory();
  void missingShardsAreNamed();
  void namesMayNotLeaveTheFolder_data();
  void namesMayNotLeaveTheFolder();
  void everyTensorIsAccountedFor();
  void brokenIndexFilesAreRefused_data();
  void brokenIndexFilesAreRefused();
  void wrongFoldersEachGetASentence();
  void aShrinkingShardIsReported();
};

void TestHfFolder::opensASingleFile() {
  const test::TempFiles files;
  write_single(files);
  const auto folder = HfFolder::open(files.folder());
  QVERIFY2(folder.ok(), folder.ok() ? "" : folder.error().message.c_str());
  const TensorInfo* tensor = (*folder)->find("a");
  QVERIFY(tensor != nullptr);
  QCOMPARE(std::memcmp(tensor->data, "aaaa", 4), 0);
  QCOMPARE((*folder)->total_bytes(), std::size_t{4});
  QVERIFY((*folder)->find("b") == nullptr);
}

void TestHfFolder::readsTheTextFilesBesideTheWeights() {
  const test::TempFiles files;
  write_single(files);
  {
    const auto folder = HfFolder::open(files.folder());
    QVERIFY(folder.ok());
    QCOMPARE((*folder)->config_json(), std::string("{\"model_type\":\"llama\"}"));
    QVERIFY((*folder)->tokenizer_json().empty() && (*folder)->tokenizer_config_json().empty());
    QVERIFY((*folder)->chat_template().empty());
  }
  files.write("tokenizer.json", "{1}");
  files.write("tokenizer_config.json", "{2}");
  files.write("chat_template.jinja", "{3}");
  const auto folder = HfFolder::open(files.folder() + "/");
  QVERIFY(folder.ok());
  QCOMPARE((*folder)->tokenizer_json(), std::string("{1}"));
  QCOMPARE((*folder)->tokenizer_config_json(), std::string("{2}"));
  QCOMPARE((*folder)->chat_template(), std::string("{3}"));
}

void TestHfFolder::opensShards() {
  const test::TempFiles files;
  write_sharded(files);
  const auto folder = HfFolder::open(files.folder());
  QVERIFY2(folder.ok(), folder.ok() ? "" : folder.error().message.c_str());
  QCOMPARE((*folder)->tensors().size(), std::size_t{2});
  QCOMPARE(std::memcmp((*folder)->find("b")->data, "bbbb", 4), 0);
}

void TestHfFolder::symbolicLinksOfASnapshotWork() {
  const test::TempFiles files;
  files.write("blobs/1", "{}");
  files.write("blobs/2", weights("a", 'a'));
  fs::create_directories(files.path("snapshots/abc"));
  fs::create_symlink("../../blobs/1", files.path("snapshots/abc/config.json"));
  fs::create_symlink("../../blobs/2", files.path("snapshots/abc/model.safetensors"));
  fs::create_directory_symlink("snapshots/abc", files.path("main"));
  QVERIFY(HfFolder::open(files.path("snapshots/abc")).ok());
  QVERIFY(HfFolder::open(files.path("main")).ok());
}

void TestHfFolder::unalignedDataIsMovedToAlignedMemory() {
  const test::TempFiles files;
  write_single(files);
  for (const char* padding : {"", " ", "  ", "   "}) {
    files.write("model.safetensors", weights("a", 'z', padding));
    const auto folder = HfFolder::open(files.folder());
    QVERIFY(folder.ok());
    const void* data = (*folder)->find("a")->data;
    QCOMPARE(reinterpret_cast<std::uintptr_t>(data) % 4, std::uintptr_t{0});
    QCOMPARE(std::memcmp(data, "zzzz", 4), 0);
  }
}

void TestHfFolder::missingShardsAreNamed() {
  const test::TempFiles files;
  write_sharded(files);
  fs::remove(files.path("model-00002-of-00002.safetensors"));
  QCOMPARE(error_of(files), std::string("1 of the model's 2 weight files is missing: "
                                        "'model-00002-of-00002.safetensors'."));
}

void TestHfFolder::namesMayNotLeaveTheFolder_data() {
  QTest::addColumn<QString>("name");
  for (const char* name :
       {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "..\\\\x.safetensors", "..",
        ".", "", "config.json", ".safetensors", "x.safetensors\\u0000"})
    QTest::newRow(name) << name;
  QTest::newRow("long") << QString(5000, 'x') + ".safetensors";
}

void TestHfFolder::namesMayNotLeaveTheFolder() {
  QFETCH(QString, name);
  const test::TempFiles files;
  write_sharded(files);
  files.write(kIndex, "{\"weight_map\":{\"a\":\"" + name.toStdString() + "\"}}");
  QVERIFY2(
      error_of(files).find("which is not a safetensors file in the folder") != std::string::npos,
      error_of(files).c_str());
}

void TestHfFolder::everyTensorIsAccountedFor() {
  const test::TempFiles files;
  write_sharded(files);
  files.write("model-00002-of-00002.safetensors", weights("c", 'c'));
  QCOMPARE(error_of(files), std::string("'model-00002-of-00002.safetensors' holds tensor 'c', "
                                        "which the index does not place there."));
  files.write("model-00002-of-00002.safetensors", weights("a", 'c'));
  QVERIFY(error_of(files).find("holds tensor 'a'") != std::string::npos);

  write_sharded(files);
  files.write(kIndex, R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)"
                      R"("b":"model-00002-of-00002.safetensors",)"
                      R"("gone":"model-00002-of-00002.safetensors"}})");
  QCOMPARE(error_of(files), std::string("'model-00002-of-00002.safetensors' should hold tensor "
                                        "'gone', but does not."));
}

void TestHfFolder::brokenIndexFilesAreRefused_data() {
  QTest::addColumn<QByteArray>("text");
  QTest::addColumn<QString>("phrase");
  QTest::newRow("empty") << QByteArray() << "is empty";
  QTest::newRow("no JSON") << QByteArray("{") << "not valid JSON";
  QTest::newRow("array") << QByteArray("[]") << "no weight map";
  QTest::newRow("no map") << QByteArray("{}") << "no weight map";
  QTest::newRow("map of nothing") << QByteArray("{\"weight_map\":{}}") << "no weight map";
  QTest::newRow("map that is an array") << QByteArray("{\"weight_map\":[]}") << "no weight map";
  QTest::newRow("number as a file") << QByteArray("{\"weight_map\":{\"a\":1}}") << "names no file";
  QTest::newRow("tensor twice")
      << QByteArray(R"({"weight_map":{"a":"x.safetensors","a":"y.safetensors"}})") << "twice";
  QTest::newRow("deep") << QByteArray(100'000, '[') << "deeper than 64";
}

void TestHfFolder::brokenIndexFilesAreRefused() {
  QFETCH(QByteArray, text);
  QFETCH(QString, phrase);
  const test::TempFiles files;
  write_sharded(files);
  files.write(kIndex, text.toStdString());
  QVERIFY2(QString::fromStdString(error_of(files)).contains(phrase), error_of(files).c_str());
}

void TestHfFolder::wrongFoldersEachGetASentence() {
  const test::TempFiles files;
  QCOMPARE(HfFolder::open(files.path("absent")).error().message,
           std::string("'absent' does not exist."));
  QVERIFY(error_of(files).find("has no 'config.json'") != std::string::npos);
  files.write("config.json", "{}");
  QVERIFY(error_of(files).find("has no 'model.safetensors'.") != std::string::npos);
  files.write("pytorch_model.bin", "x");
  QVERIFY(error_of(files).find("must be converted") != std::string::npos);
  QCOMPARE(HfFolder::open(files.path("config.json")).error().message,
           std::string("'config.json' is not a folder."));
  files.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  QVERIFY(error_of(files).find("'model.safetensors' is a Git LFS pointer") != std::string::npos);
  files.write("config.json", "version https://git-lfs.github.com/spec/v1\n");
  QVERIFY(error_of(files).find("'config.json' is a Git LFS pointer") != std::string::npos);
}

void TestHfFolder::aShrinkingShardIsReported() {
  const test::TempFiles files;
  write_sharded(files);
  const auto folder = HfFolder::open(files.folder());
  QVERIFY(folder.ok());
  QVERIFY((*folder)->check_intact().ok());
  fs::resize_file(files.path("model-00002-of-00002.safetensors"), 10);
  const Status status = (*folder)->check_intact();
  QVERIFY(!status.ok());
  QVERIFY(status.error().message.find("shrank") != std::string::npos);
}

}  // namespace quire

using quire::TestHfFolder;
QUIRE_TEST(TestHfFolder)
#include "tst_hf_folder.moc"
