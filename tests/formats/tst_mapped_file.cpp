#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "engine/formats/gguf.h"
#include "engine/formats/mapped_file.h"
#include "engine/memory.h"
#include "tests/formats/temp_files.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

constexpr std::size_t kPage = 4096;

int sum_of(std::string_view bytes) {
  int sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 512) sum += bytes[i];
  return sum;
}

}  // namespace

class TestMappedFile : public QObject {
  Q_OBJECT
 private slots:
  void readsPastAShrunkFilesEndGiveZeros();
  void aFileCutInsideAPageIsNoticed();
  void manyThreadsMayReadAShrinkingFile();
  void aModelThatShrinksAfterOpeningIsReported();
  void guardsAreGivenBack();
  void releasedPagesAreReadAgain();
  void aReleasedFileThatShrankStillReadsZeros();
};

void TestMappedFile::readsPastAShrunkFilesEndGiveZeros() {
  const test::TempFiles files;
  const std::string path = files.write("m", std::string(64 * kPage, '\1'));
  const auto file = MappedFile::open(path);
  QVERIFY(file.ok());
  QVERIFY((*file)->check_intact().ok());
  std::filesystem::resize_file(path, 2 * kPage);
  QCOMPARE(sum_of((*file)->bytes()), static_cast<int>(2 * kPage / 512));
  const Status status = (*file)->check_intact();
  QVERIFY(!status.ok());
  QCOMPARE(status.error().code, ErrorCode::kBadModelFile);
  QVERIFY(status.error().message.find("shrank from 262144 to 8192 bytes") != std::string::npos);
}

void TestMappedFile::aFileCutInsideAPageIsNoticed() {
  const test::TempFiles files;
  const std::string path = files.write("m", std::string(100, '\1'));
  const auto file = MappedFile::open(path);
  QVERIFY(file.ok());
  std::filesystem::resize_file(path, 50);
  QVERIFY(!(*file)->check_intact().ok());
}

void TestMappedFile::manyThreadsMayReadAShrinkingFile() {
  const test::TempFiles files;
  const std::string path = files.write("m", std::string(256 * kPage, '\1'));
  const auto file = MappedFile::open(path);
  QVERIFY(file.ok());
  std::atomic<int> ready{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      ++ready;
      while ((*file)->check_intact().ok()) sum_of((*file)->bytes());
      sum_of((*file)->bytes());
    });
  while (ready < 4) std::this_thread::yield();
  std::filesystem::resize_file(path, 0);
  for (std::thread& reader : readers) reader.join();
  QCOMPARE(sum_of((*file)->bytes()), 0);
}

void TestMappedFile::aModelThatShrinksAfterOpeningIsReported() {
  const test::TempFiles files;
  const std::string bytes =
      test::GgufWriter().add_tensor("t", 0, {16 * kPage}, std::string(64 * kPage, 'x')).finish();
  const std::string path = files.write("m.gguf", bytes);
  const auto file = GgufFile::open(path);
  QVERIFY(file.ok());
  QVERIFY((*file)->check_intact().ok());
  std::filesystem::resize_file(path, kPage);
  const TensorInfo& tensor = (*file)->tensors().front();
  sum_of({static_cast<const char*>(tensor.data), tensor.bytes});
  QVERIFY(!(*file)->check_intact().ok());
}

void TestMappedFile::releasedPagesAreReadAgain() {
  constexpr std::size_t kPages = 2048;
  const test::TempFiles files;
  const std::string path = files.write("m", std::string(kPages * kPage, '\1'));
  const auto file = MappedFile::open(path);
  QVERIFY(file.ok());
  const std::string_view bytes = (*file)->bytes();
  const int sum = sum_of(bytes);
  const std::uint64_t before = process_memory().resident_bytes;
  // All but a part of the first page and of the last: neighbours' shares may go with them.
  (*file)->release(bytes.data() + 100, bytes.size() - 200);
  const std::uint64_t after = process_memory().resident_bytes;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  QVERIFY2(after + (kPages - 200) * kPage < before, qPrintable(QString::number(before - after)));
#else
  static_cast<void>(before + after);
#endif
  QCOMPARE(sum_of(bytes), sum);
  const std::string elsewhere(kPage, '\2');
  (*file)->release(elsewhere.data(), elsewhere.size());
  (*file)->release(bytes.data() + kPage, bytes.size());  // past its end
  QCOMPARE(elsewhere, std::string(kPage, '\2'));
  QCOMPARE(sum_of(bytes), sum);
}

void TestMappedFile::aReleasedFileThatShrankStillReadsZeros() {
  const test::TempFiles files;
  const std::string path = files.write("m", std::string(64 * kPage, '\1'));
  const auto file = MappedFile::open(path);
  QVERIFY(file.ok());
  std::filesystem::resize_file(path, 2 * kPage);
  QCOMPARE(sum_of((*file)->bytes()), static_cast<int>(2 * kPage / 512));
  (*file)->release((*file)->bytes().data(), (*file)->bytes().size());
  QCOMPARE(sum_of((*file)->bytes()), static_cast<int>(2 * kPage / 512));
  QVERIFY(!(*file)->check_intact().ok());
}

void TestMappedFile::guardsAreGivenBack() {
  const test::TempFiles files;
  const std::string path = files.write("m", "x");
  for (int i = 0; i < PageGuard::kMaxGuards + 1; ++i) QVERIFY(MappedFile::open(path).ok());
}

}  // namespace quire

using quire::TestMappedFile;
QUIRE_TEST(TestMappedFile)
#include "tst_mapped_file.moc"
