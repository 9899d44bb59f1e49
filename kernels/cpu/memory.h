#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace quire::cpu {

class ThreadPool;

// Memory aligned to a cache line; from 4 MiB up to 2 MiB pages, where the system has them to give.
// Zeroed. The system gives its pages when they are first written. Running out of addresses throws
// std::bad_alloc.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size);

  std::size_t size() const { return size_; }
  std::uint8_t* data() { return data_.get(); }
  const std::uint8_t* data() const { return data_.get(); }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }
  // Makes room for at least `size` bytes; the contents are lost when it has to grow.
  void reserve(std::size_t size);
  // Makes the system give the memory now, on all of the pool's threads, so that first use neither
  // pauses nor finds none left.
  void populate(ThreadPool& pool);

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::uint8_t* data) const;
  };
  std::unique_ptr<std::uint8_t, Unmap> data_;
  std::size_t size_ = 0;
};

// Hands out pieces of large mappings, so that many matrices of a megabyte or less share 2 MiB
// pages: reading weights is limited by address translation otherwise (twice the bandwidth on a Zen
// 3 virtual machine). A mapping goes back to the system when the last piece of it is gone.
class Arena {
 public:
  // Zeroed and aligned to a cache line.
  std::shared_ptr<std::uint8_t> allocate(std::size_t size);

 private:
  std::shared_ptr<AlignedBytes> current_;
  std::size_t used_ = 0;
};

}  // namespace quire::cpu
