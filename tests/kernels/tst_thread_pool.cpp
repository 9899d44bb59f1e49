#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;

namespace {

std::atomic<int> jobs_ended{0};
thread_local bool busy = false;

void end_job() {
  if (busy) ++jobs_ended;
  busy = false;
}

}  // namespace

class TestThreadPool : public QObject {
  Q_OBJECT
 private slots:
  void everyItemRunsOnce();
  void jobsFollowEachOtherWithoutMixing();
  void sleepingWorkersWakeUp();
  void denormalsAreFlushedInWorkers();
  void everyThreadThatRanItemsEndsTheJob();
};

void TestThreadPool::everyItemRunsOnce() {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    QCOMPARE(pool.num_threads(), threads);
    for (const int count : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(count);
      std::atomic<bool> bad_thread{false};
      pool.run(count, [&](int item, int thread) {
        ++runs[item];
        if (thread < 0 || thread >= threads) bad_thread = true;
      });
      QCOMPARE(std::accumulate(runs.begin(), runs.end(), 0), count);
      QVERIFY(std::ranges::all_of(runs, [](int n) { return n == 1; }));
      QVERIFY(!bad_thread);
    }
  }
}

void TestThreadPool::jobsFollowEachOtherWithoutMixing() {
  ThreadPool pool(3);
  for (int job = 0; job < 3000; ++job) {
    std::vector<int> values(1 + job % 5, -1);
    pool.run(static_cast<std::int64_t>(values.size()), [&](int item, int) { values[item] = job; });
    for (const int value : values) QCOMPARE(value, job);
  }
}

void TestThreadPool::sleepingWorkersWakeUp() {
  ThreadPool pool(2);
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    // Each item waits for the other, so two threads must take part.
    std::atomic<int> arrived{0};
    pool.run(2, [&](int, int) {
      ++arrived;
      while (arrived.load() < 2) std::this_thread::yield();
    });
    QCOMPARE(arrived.load(), 2);
  }
}

void TestThreadPool::denormalsAreFlushedInWorkers() {
  const FlushDenormals flush;
  ThreadPool pool(2);
  std::atomic<int> arrived{0}, denormals{0};
  pool.run(2, [&](int, int) {
    volatile float smallest = 1.2e-38f;
    if (smallest * 0.5f != 0.0f) ++denormals;
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  QCOMPARE(denormals.load(), 0);
}

void TestThreadPool::everyThreadThatRanItemsEndsTheJob() {
  for (const int threads : {1, 2, 3}) {
    jobs_ended = 0;
    {
      ThreadPool pool(threads, {.on_start = {}, .after_job = end_job});
      // Every item waits for the others, so all threads take part in both jobs.
      for (int job = 0; job < 2; ++job) {
        std::atomic<int> arrived{0};
        pool.run(threads, [&](int, int) {
          busy = true;
          ++arrived;
          while (arrived.load() < threads) std::this_thread::yield();
        });
        QVERIFY(!busy);
      }
    }
    // A worker that finds the second job before it looks up from the first ends both at once.
    QVERIFY(jobs_ended >= threads + 1 && jobs_ended <= 2 * threads);
  }
}

QUIRE_TEST(TestThreadPool)
#include "tst_thread_pool.moc"
