#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "kernels/cpu/thread_pool.h"

namespace quire::cpu {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kPopulated = 8 * kHugePage;  // in one call
constexpr std::size_t kMapping = std::size_t{64} << 20;

}  // namespace

// Anonymous mappings are zero, cost nothing until touched, and go back to the system when freed.
AlignedBytes::AlignedBytes(std::size_t size) : size_(size) {
  if (size == 0) return;
  const bool large = size >= 2 * kHugePage;
  const std::size_t mapped = large ? size + kHugePage : size;
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  auto* bytes = static_cast<std::uint8_t*>(start);
  if (large) {
    const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(bytes) % kHugePage;
    const std::size_t skip = misplaced == 0 ? 0 : kHugePage - misplaced;
    if (skip > 0) munmap(bytes, skip);
    if (skip < kHugePage) munmap(bytes + skip + size, kHugePage - skip);
    bytes += skip;
    madvise(bytes, size, MADV_HUGEPAGE);
  }
  data_ = std::unique_ptr<std::uint8_t, Unmap>(bytes, Unmap{size});
}

void AlignedBytes::reserve(std::size_t size) {
  if (size > size_) *this = AlignedBytes(size + size / 4);
}

void AlignedBytes::populate(ThreadPool& pool) {
  const std::size_t slices = (size_ + kPopulated - 1) / kPopulated;
  pool.run(static_cast<std::int64_t>(slices), [&](int slice, int) {
    const std::size_t begin = static_cast<std::size_t>(slice) * kPopulated;
    const std::size_t count = std::min(kPopulated, size_ - begin);
    std::uint8_t* const from = data() + begin;
    if (madvise(from, count, MADV_POPULATE_WRITE) == 0) return;
    // Linux before 5.14: writing does the same, a page at a time.
    for (std::size_t i = 0; i < count; i += kSmallPage) {
      volatile std::uint8_t* const byte = from + i;
      *byte = *byte;
    }
  });
}

std::shared_ptr<std::uint8_t> Arena::allocate(std::size_t size) {
  const std::size_t rounded = (size + 63) / 64 * 64;
  if (rounded > kMapping / 2) {
    auto own = std::make_shared<AlignedBytes>(rounded);
    return {own, own->data()};
  }
  if (current_ == nullptr || used_ + rounded > current_->size()) {
    current_ = std::make_shared<AlignedBytes>(kMapping);
    used_ = 0;
  }
  std::uint8_t* piece = current_->data() + used_;
  used_ += rounded;
  return {current_, piece};
}

void AlignedBytes::Unmap::operator()(std::uint8_t* data) const {
  munmap(data, size);
}

}  // namespace quire::cpu
