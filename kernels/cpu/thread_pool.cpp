#include "kernels/cpu/thread_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace quire::cpu {
namespace {

constexpr unsigned kFlushToZeroAndDenormalsAreZero = 0x8040;
constexpr int kItemBits = 24;
constexpr std::uint64_t kItemMask = (std::uint64_t{1} << kItemBits) - 1;
constexpr int kSpins = 4000;  // about 100 microseconds of pause instructions

std::uint64_t next_item(std::uint64_t ticket) {
  return ticket & kItemMask;
}
std::uint64_t item_count(std::uint64_t ticket) {
  return (ticket >> kItemBits) & kItemMask;
}
std::uint64_t job_number(std::uint64_t ticket) {
  return ticket >> (2 * kItemBits);
}

}  // namespace

FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | kFlushToZeroAndDenormalsAreZero);
}

FlushDenormals::~FlushDenormals() {
  _mm_setcsr(saved_);
}

ThreadPool::ThreadPool(int num_threads, Hooks hooks) : hooks_(std::move(hooks)) {
  for (int i = 1; i < num_threads; ++i)
    workers_.emplace_back([this, i] {
      if (hooks_.on_start) hooks_.on_start(i);
      work(i);
    });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  ++jobs_published_;
  jobs_published_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_items(std::int64_t count, Function function, const void* context) {
  QUIRE_CHECK(count >= 0 && count <= static_cast<std::int64_t>(kItemMask), count);
  if (count == 0) return;
  if (count == 1 || workers_.empty()) {
    for (std::int64_t i = 0; i < count && !cancelled(); ++i) {
      function(context, static_cast<int>(i), 0);
    }
    if (hooks_.after_job != nullptr) hooks_.after_job();
    return;
  }
  function_.store(function, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  const std::uint64_t number = job_number(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store((number << (2 * kItemBits)) | (static_cast<std::uint64_t>(count) << kItemBits));
  ++jobs_published_;
  if (sleeping_.load() > 0) jobs_published_.notify_all();

  run_rest(0);
  for (int spins = 0; done_.load(std::memory_order_acquire) != count; ++spins) {
    _mm_pause();
    if (spins >= kSpins) std::this_thread::yield();
  }
}

bool ThreadPool::run_one(int thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  do {
    if (next_item(ticket) >= item_count(ticket)) return false;
  } while (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  const Function function = function_.load(std::memory_order_relaxed);
  if (!cancelled()) {
    function(context_.load(std::memory_order_relaxed), static_cast<int>(next_item(ticket)), thread);
  }
  done_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void ThreadPool::run_rest(int thread) {
  if (!run_one(thread)) return;
  while (run_one(thread)) {
  }
  if (hooks_.after_job != nullptr) hooks_.after_job();
}

bool ThreadPool::has_work() const {
  const std::uint64_t ticket = ticket_.load();
  return next_item(ticket) < item_count(ticket) || stopping_.load();
}

void ThreadPool::work(int thread) {
  const FlushDenormals flush;
  while (!stopping_.load(std::memory_order_relaxed)) {
    int spins = 0;
    while (!has_work() && spins++ < kSpins) _mm_pause();
    if (!has_work()) sleep_until_work();
    run_rest(thread);
  }
}

// The count of sleepers is raised before the last look for work and read after work is published,
// so either this thread sees the work or the publisher sees the sleeper.
void ThreadPool::sleep_until_work() {
  ++sleeping_;
  const std::uint32_t seen = jobs_published_.load();
  if (!has_work()) jobs_published_.wait(seen);
  --sleeping_;
}

}  // namespace quire::cpu
