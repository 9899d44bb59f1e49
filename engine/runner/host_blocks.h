#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace quire {

// Host memory for the contents of blocks that are out of the KV pool. The system hands its pages
// out as they are first written, so a pool nobody swaps to costs nothing.
class HostBlocks {
 public:
  // Zeroed. Running out of memory throws std::bad_alloc.
  HostBlocks(int num_blocks, std::size_t bytes_per_block);

  int num_blocks() const { return num_blocks_; }
  std::span<std::byte> block(int index);  // [bytes_per_block]

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* data) const;
  };
  int num_blocks_;
  std::size_t bytes_per_block_;
  std::unique_ptr<std::byte, Unmap> data_;
};

}  // namespace quire
