#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/dtype.h"
#include "tests/support/test_main.h"

namespace quire {
namespace {

std::vector<char> read_fixture(const std::string& name) {
  std::ifstream file(test::fixture("kernels/data/" + name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// NaNs keep their class, not their payload: numpy and this code may quieten differently.
bool same_bits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

class TestDequantize : public QObject {
  Q_OBJECT
 private slots:
  void everyTypeDecodesAsTheGgufPackageDoes_data();
  void everyTypeDecodesAsTheGgufPackageDoes();
  void unalignedBlocksDecodeAlike_data() { everyTypeDecodesAsTheGgufPackageDoes_data(); }
  void unalignedBlocksDecodeAlike();
  void rowBytesCountsWholeBlocks();
};

void TestDequantize::everyTypeDecodesAsTheGgufPackageDoes_data() {
  QTest::addColumn<int>("type");
  for (int type = 0; type < kNumDTypes; ++type)
    QTest::newRow(std::string(dtype_info(static_cast<DType>(type)).name).c_str()) << type;
}

// Bit for bit: the same float32 operations in the same order, each correctly rounded on both sides.
void TestDequantize::everyTypeDecodesAsTheGgufPackageDoes() {
  QFETCH(int, type);
  const auto dtype = static_cast<DType>(type);
  const DTypeInfo& info = dtype_info(dtype);
  const std::string stem = "dequant_" + std::string(info.name);
  const auto blocks = read_fixture(stem + ".blocks");
  const auto expected_bytes = read_fixture(stem + ".f32");
  const std::size_t num_blocks = blocks.size() / info.block_bytes;
  const std::size_t count = num_blocks * info.block_elements;
  QVERIFY(count > 0);
  QCOMPARE(expected_bytes.size(), count * sizeof(float));

  std::vector<float> expected(count), actual(count);
  std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());
  dequantize(dtype, blocks.data(), actual.data(), static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i)
    QVERIFY2(same_bits(actual[i], expected[i]), qPrintable(QString("element %1: %2, expected %3")
                                                               .arg(i)
                                                               .arg(actual[i], 0, 'g', 9)
                                                               .arg(expected[i], 0, 'g', 9)));
}

void TestDequantize::unalignedBlocksDecodeAlike() {
  QFETCH(int, type);
  const auto dtype = static_cast<DType>(type);
  const DTypeInfo& info = dtype_info(dtype);
  const auto blocks = read_fixture("dequant_" + std::string(info.name) + ".blocks");
  const auto count =
      static_cast<std::int64_t>(blocks.size()) / info.block_bytes * info.block_elements;
  std::vector<char> shifted(blocks.size() + 1);
  std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
  std::vector<float> aligned(count), unaligned(count);
  dequantize(dtype, blocks.data(), aligned.data(), count);
  dequantize(dtype, shifted.data() + 1, unaligned.data(), count);
  QCOMPARE(std::memcmp(aligned.data(), unaligned.data(), count * sizeof(float)), 0);
}

void TestDequantize::rowBytesCountsWholeBlocks() {
  QCOMPARE(row_bytes(DType::kF32, 3), std::size_t{12});
  QCOMPARE(row_bytes(DType::kBF16, 3), std::size_t{6});
  QCOMPARE(row_bytes(DType::kQ4_1, 576), std::size_t{360});
  QCOMPARE(row_bytes(DType::kQ6_K, 512), std::size_t{420});
  QCOMPARE(row_bytes(DType::kQ8_0, 0), std::size_t{0});
}

}  // namespace quire

using quire::TestDequantize;
QUIRE_TEST(TestDequantize)
#include "tst_dequantize.moc"
