#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace quire::cpu {

// Memory aligned to a cache line; from 4 MiB up to 2 MiB pages, where the system has them to give.
// Zeroed. Running out throws std::bad_alloc.
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

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::uint8_t* data) const;
  };
  std::unique_ptr<std::uint8_t, Unmap> data_;
  std::size_t size_ = 0;
};

}  // namespace quire::cpu
