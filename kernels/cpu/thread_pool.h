#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace quire::cpu {

// While one lives, denormal floats are read and written as zero on this thread. Workers of the pool
// hold one for good; every operation of the backend holds one on the calling thread.
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_ = 0;
};

// Runs the items of one job on all threads, the caller's included. Items are handed out one at a
// time from a shared counter, so a slow or sleeping thread delays nobody: what the workers do not
// take, the caller does. Workers look for work for about 100 microseconds after the last job, then
// sleep. run() is called from one thread at a time.
class ThreadPool {
 public:
  struct Hooks {
    // Called on each worker with its number before it takes work; may be empty.
    std::function<void(int thread)> on_start;
    // Called on each thread when it has run items and finds no more; may be null.
    void (*after_job)() = nullptr;
  };

  explicit ThreadPool(int num_threads) : ThreadPool(num_threads, Hooks()) {}
  ThreadPool(int num_threads, Hooks hooks);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Once *flag is true, items that have not begun are skipped. Null: none are. The flag is read
  // until it is replaced.
  void set_cancel(const std::atomic<bool>* flag) { cancel_.store(flag); }

  // Calls body(item, thread) for every item in [0, count), count < 2^24; thread is in
  // [0, num_threads). Returns when all are done; what they wrote is then visible here.
  template <typename Body>
  void run(std::int64_t count, const Body& body) {
    run_items(
        count,
        [](const void* context, int item, int thread) {
          (*static_cast<const Body*>(context))(item, thread);
        },
        &body);
  }

 private:
  using Function = void (*)(const void* context, int item, int thread);

  void run_items(std::int64_t count, Function function, const void* context);
  // Takes one item of the published job and runs it; false when there is none.
  bool run_one(int thread);
  // All that are left.
  void run_rest(int thread);
  bool cancelled() const {
    const std::atomic<bool>* flag = cancel_.load(std::memory_order_relaxed);
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  }
  void work(int thread);
  void sleep_until_work();
  bool has_work() const;

  // A job: its number, its item count and the next item to hand out, in one word. An item is taken
  // by compare-and-swap on the whole word, so a thread that looked at an older job takes nothing,
  // and function_ and context_ are read only while the job they belong to has unfinished items.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::int64_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> jobs_published_{0};
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<Function> function_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<const std::atomic<bool>*> cancel_{nullptr};
  const Hooks hooks_;
  std::vector<std::thread> workers_;
};

}  // namespace quire::cpu
