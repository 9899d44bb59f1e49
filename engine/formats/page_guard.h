#pragma once

#include <cstddef>

namespace quire {

// Survives reads of a file mapping whose pages have gone: a file that was truncated by another
// program, or a disk that fails. Without it such a read kills the process with SIGBUS.
//
// Making a guard puts a process-wide SIGBUS handler in place. A fault inside a guarded range
// replaces the rest of that range with zero pages, marks the guard torn and lets the read go on;
// the owner asks torn() when it has read what it wanted and discards the values. Nothing is
// unwound, so any thread may read a guarded range at any time with no code around the read. Faults
// elsewhere go to the handler that was installed before, or end the process as usual.
class PageGuard {
 public:
  // Guards [begin, begin + size); `begin` is what mmap returned.
  PageGuard(const void* begin, std::size_t size);
  // Before the range is unmapped, and after the last read of it.
  ~PageGuard();
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

  bool armed() const { return slot_ >= 0; }  // false: kMaxGuards ranges are guarded already
  bool torn() const;                         // any thread

  static constexpr int kMaxGuards = 4096;

 private:
  int slot_ = -1;
};

}  // namespace quire
