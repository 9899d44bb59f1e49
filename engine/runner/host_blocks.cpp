#include "engine/runner/host_blocks.h"

#include <sys/mman.h>

#include <new>

#include "kernels/check.h"

namespace quire {

HostBlocks::HostBlocks(int num_blocks, std::size_t bytes_per_block)
    : num_blocks_(num_blocks), bytes_per_block_(bytes_per_block), data_(nullptr, Unmap{0}) {
  QUIRE_CHECK(num_blocks >= 0, num_blocks);
  std::size_t size = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(num_blocks), bytes_per_block, &size))
    throw std::bad_alloc();
  if (size == 0) return;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = {static_cast<std::byte*>(memory), Unmap{size}};
  madvise(memory, size, MADV_HUGEPAGE);  // a wish: fewer faults the first time a block leaves
}

std::span<std::byte> HostBlocks::block(int index) {
  QUIRE_CHECK(index >= 0 && index < num_blocks_, index, num_blocks_);
  return {data_.get() + static_cast<std::size_t>(index) * bytes_per_block_, bytes_per_block_};
}

void HostBlocks::Unmap::operator()(std::byte* data) const {
  munmap(data, size);
}

}  // namespace quire
