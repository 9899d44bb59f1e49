#pragma once

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace quire {

// Puts arrays of 1 MiB and more on 2 MiB pages where the system gives them: tables that are read at
// random cost an address translation an access otherwise.
template <typename T>
struct LargePageAllocator {
  using value_type = T;
  static constexpr std::size_t kPage = std::size_t{2} << 20;

  LargePageAllocator() = default;
  template <typename U>
  explicit LargePageAllocator(const LargePageAllocator<U>&) {}

  static bool large(std::size_t count) { return count * sizeof(T) >= kPage / 2; }

  T* allocate(std::size_t count) {
    if (!large(count)) return std::allocator<T>().allocate(count);
    const std::size_t size = (count * sizeof(T) + kPage - 1) / kPage * kPage;
    void* memory = std::aligned_alloc(kPage, size);
    if (memory == nullptr) throw std::bad_alloc();
    madvise(memory, size, MADV_HUGEPAGE);  // a wish; without it the pages are small
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (large(count))
      std::free(memory);
    else
      std::allocator<T>().deallocate(memory, count);
  }
  bool operator==(const LargePageAllocator&) const = default;
};

template <typename T>
using LargeVector = std::vector<T, LargePageAllocator<T>>;

}  // namespace quire
