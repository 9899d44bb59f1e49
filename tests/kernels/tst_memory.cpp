#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/support/test_main.h"

using namespace quire::cpu;

class TestMemory : public QObject {
  Q_OBJECT
 private slots:
  void piecesAreAlignedZeroedAndApart();
  void aPieceOutlivesItsArena();
  void reservingMoreKeepsNothingAndLessKeepsAll();
  void populatedMemoryIsResident();
};

void TestMemory::piecesAreAlignedZeroedAndApart() {
  Arena arena;
  std::vector<std::pair<std::shared_ptr<std::uint8_t>, std::size_t>> pieces;
  for (const std::size_t size : {1u, 63u, 64u, 4097u, 40u << 20, 30u << 20, 30u << 20, 5u}) {
    pieces.emplace_back(arena.allocate(size), size);
    const auto& [piece, bytes] = pieces.back();
    QCOMPARE(reinterpret_cast<std::uintptr_t>(piece.get()) % 64, std::uintptr_t{0});
    QCOMPARE(piece.get()[0], std::uint8_t{0});
    QCOMPARE(piece.get()[bytes - 1], std::uint8_t{0});
    piece.get()[0] = piece.get()[bytes - 1] = static_cast<std::uint8_t>(pieces.size());
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    QCOMPARE(pieces[i].first.get()[0], static_cast<std::uint8_t>(i + 1));
    QCOMPARE(pieces[i].first.get()[pieces[i].second - 1], static_cast<std::uint8_t>(i + 1));
  }
}

void TestMemory::aPieceOutlivesItsArena() {
  std::shared_ptr<std::uint8_t> piece;
  {
    Arena arena;
    arena.allocate(100);
    piece = arena.allocate(100);
  }
  std::memset(piece.get(), 7, 100);
  QCOMPARE(piece.get()[99], std::uint8_t{7});
}

void TestMemory::reservingMoreKeepsNothingAndLessKeepsAll() {
  AlignedBytes bytes(100);
  bytes.data()[3] = 9;
  bytes.reserve(50);
  QCOMPARE(bytes.data()[3], std::uint8_t{9});
  bytes.reserve(200);
  QVERIFY(bytes.size() >= 200);
  QCOMPARE(bytes.data()[3], std::uint8_t{0});
}

std::size_t resident_pages(AlignedBytes& bytes) {
  std::vector<unsigned char> in_memory((bytes.size() + 4095) / 4096);
  mincore(bytes.data(), bytes.size(), in_memory.data());
  return static_cast<std::size_t>(
      std::ranges::count_if(in_memory, [](unsigned char page) { return (page & 1) != 0; }));
}

void TestMemory::populatedMemoryIsResident() {
  ThreadPool pool(2);
  for (const std::size_t size : {5000u, 40u << 20}) {
    AlignedBytes bytes(size);
    QCOMPARE(resident_pages(bytes), std::size_t{0});
    bytes.data()[7] = 9;
    bytes.populate(pool);
    QCOMPARE(resident_pages(bytes), (size + 4095) / 4096);
    QCOMPARE(bytes.data()[7], std::uint8_t{9});
    QCOMPARE(bytes.data()[size - 1], std::uint8_t{0});
  }
}

QUIRE_TEST(TestMemory)
#include "tst_memory.moc"
