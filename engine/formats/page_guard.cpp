#include "engine/formats/page_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace quire {
namespace {

// `end` is written last on arming and first on disarming, and is zero in a free slot, so the
// handler, which takes no lock, never matches a half-written one.
struct Slot {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> torn{false};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

std::array<Slot, PageGuard::kMaxGuards> slots;
std::mutex slots_mutex;  // arming and disarming only
std::uintptr_t page_size = 4096;
struct sigaction previous_action;

Slot* slot_of(std::uintptr_t address) {
  for (Slot& slot : slots) {
    const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (address < end && address >= slot.begin.load(std::memory_order_relaxed)) return &slot;
  }
  return nullptr;
}

// A plain system call, as the library's mmap may be wrapped by a sanitizer.
bool replace_with_zeros(std::uintptr_t begin, std::uintptr_t end) {
  const long result = syscall(SYS_mmap, begin, end - begin, PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return static_cast<std::uintptr_t>(result) == begin;
}

void pass_on(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN) {
    // The faulting instruction runs again on return and ends the process.
    signal(signal_number, SIG_DFL);
  } else {
    previous_action.sa_handler(signal_number);
  }
}

void on_bus_error(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  Slot* slot = slot_of(address);
  if (slot != nullptr &&
      replace_with_zeros(address & ~(page_size - 1), slot->end.load(std::memory_order_relaxed))) {
    slot->torn.store(true, std::memory_order_release);
  } else {
    pass_on(signal_number, info, context);
  }
  errno = saved_errno;
}

// Another library may have put its own handler in the place of ours since the last guard.
void ensure_handler() {
  struct sigaction current = {};
  sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
  previous_action = current;
  page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

PageGuard::PageGuard(const void* begin, std::size_t size) {
  const std::lock_guard lock(slots_mutex);
  ensure_handler();
  for (int i = 0; i < kMaxGuards; ++i) {
    Slot& slot = slots[static_cast<std::size_t>(i)];
    if (slot.end.load(std::memory_order_relaxed) != 0) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    slot.torn.store(false, std::memory_order_relaxed);
    slot.begin.store(address, std::memory_order_relaxed);
    slot.end.store((address + size + page_size - 1) & ~(page_size - 1), std::memory_order_release);
    slot_ = i;
    return;
  }
}

PageGuard::~PageGuard() {
  if (slot_ < 0) return;
  const std::lock_guard lock(slots_mutex);
  slots[static_cast<std::size_t>(slot_)].end.store(0, std::memory_order_release);
}

bool PageGuard::torn() const {
  return slot_ >= 0 && slots[static_cast<std::size_t>(slot_)].torn.load(std::memory_order_acquire);
}

}  // namespace quire
