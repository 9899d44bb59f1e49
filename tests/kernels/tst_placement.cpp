#include <linux/capability.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "kernels/cpu/detect.h"
#include "kernels/cpu/placement.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;

namespace {

std::set<int> cpus_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::set<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
  return cpus;
}

void limit_this_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Of this thread and those it starts.
void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
}

// Runs body(thread) once on each of a pool's threads.
template <typename Body>
void on_every_thread(ThreadPool& pool, const Body& body) {
  const int count = pool.num_threads();
  std::atomic<int> arrived{0};
  pool.run(count, [&](int, int thread) {
    body(thread);
    ++arrived;
    while (arrived.load() < count) std::this_thread::yield();
  });
}

// Settings last as long as their thread, so each test has one of its own.
template <typename Body>
void on_own_thread(const Body& body) {
  std::thread(body).join();
}

}  // namespace

class TestPlacement : public QObject {
  Q_OBJECT
 private slots:
  void pinnedThreadsKeepToCoresOfTheirOwn();
  void onlyAllowedCpusAreUsed();
  void tooFewCpusAreAWarning();
  void priorityIsEachThreadsOwn();
  void aRaiseThatIsRefusedIsAWarning();
  void aBackendPlacesTheThreadThatStepsAndNoOther();
};

void TestPlacement::pinnedThreadsKeepToCoresOfTheirOwn() {
  const int count = physical_cores();
  on_own_thread([count] {
    const std::set<int> allowed = cpus_of_this_thread();
    const Placement placement(CpuPin::kCores, CpuPriority::kNormal, count);
    QVERIFY(placement.warnings().empty());
    QCOMPARE(cpus_of_this_thread(), allowed);  // making one places nobody
    ThreadPool pool(count, {.on_start = [&](int thread) { placement.apply(thread); }});
    placement.apply(0);
    std::mutex mutex;
    std::set<int> used;
    bool one_each = true;
    on_every_thread(pool, [&](int) {
      const std::set<int> own = cpus_of_this_thread();
      const std::lock_guard lock(mutex);
      one_each = one_each && own.size() == 1;
      used.insert(own.begin(), own.end());
    });
    QVERIFY(one_each);
    QCOMPARE(static_cast<int>(used.size()), count);
    QVERIFY(std::ranges::includes(allowed, used));
    for (const auto& core : allowed_cores())  // now of one pinned thread
      QCOMPARE(core.size(), std::size_t{1});
  });
}

void TestPlacement::onlyAllowedCpusAreUsed() {
  on_own_thread([] {
    const int last = *cpus_of_this_thread().rbegin();
    limit_this_thread(last);
    QCOMPARE(physical_cores(), 1);
    QCOMPARE(allowed_cores(), std::vector<std::vector<int>>{{last}});
    const Placement placement(CpuPin::kCores, CpuPriority::kNormal, 1);
    placement.apply(0);
    QCOMPARE(cpus_of_this_thread(), std::set<int>{last});
  });
}

void TestPlacement::tooFewCpusAreAWarning() {
  on_own_thread([] {
    const std::set<int> allowed = cpus_of_this_thread();
    const Placement placement(CpuPin::kCores, CpuPriority::kNormal, 1000);
    QCOMPARE(placement.warnings().size(), std::size_t{1});
    QVERIFY(placement.warnings()[0].find("1000") != std::string::npos);
    placement.apply(999);
    QCOMPARE(cpus_of_this_thread(), allowed);
  });
}

void TestPlacement::priorityIsEachThreadsOwn() {
  const int before = getpriority(PRIO_PROCESS, 0);
  on_own_thread([before] {
    const Placement placement(CpuPin::kNone, CpuPriority::kLow, 3);
    QVERIFY(placement.warnings().empty());
    QCOMPARE(getpriority(PRIO_PROCESS, 0), before);
    ThreadPool pool(3, {.on_start = [&](int thread) { placement.apply(thread); }});
    placement.apply(0);
    std::atomic<int> low{0};
    on_every_thread(pool, [&](int) { low += getpriority(PRIO_PROCESS, 0) == Placement::kNice; });
    QCOMPARE(low.load(), 3);
  });
  QCOMPARE(getpriority(PRIO_PROCESS, 0), before);
}

void TestPlacement::aRaiseThatIsRefusedIsAWarning() {
  on_own_thread([] {
    drop_capabilities();
    const int before = getpriority(PRIO_PROCESS, 0);
    const Placement placement(CpuPin::kNone, CpuPriority::kHigh, 1);
    placement.apply(0);
    const int now = getpriority(PRIO_PROCESS, 0);
    if (placement.warnings().empty()) {  // the limit on nice allows it
      QCOMPARE(now, -Placement::kNice);
    } else {
      QCOMPARE(now, before);
      QVERIFY(placement.warnings()[0].find("CAP_SYS_NICE") != std::string::npos);
    }
  });
}

void TestPlacement::aBackendPlacesTheThreadThatStepsAndNoOther() {
  BackendOptions options;
  options.num_threads = 1;
  options.cpu_pin = CpuPin::kCores;
  options.cpu_priority = CpuPriority::kLow;
  std::string error;
  const auto backend = make_cpu_backend(options, error);
  QVERIFY(backend != nullptr);
  QVERIFY(backend->warnings().empty());
  const std::set<int> allowed = cpus_of_this_thread();
  on_own_thread([&] {
    const test::Step step({{0, 0, 1}}, {{0}}, 16);
    backend->begin_step(step.view());
    QCOMPARE(cpus_of_this_thread().size(), std::size_t{1});
    QCOMPARE(getpriority(PRIO_PROCESS, 0), Placement::kNice);
    backend->end_step();
  });
  QCOMPARE(cpus_of_this_thread(), allowed);
}

QUIRE_TEST(TestPlacement)
#include "tst_placement.moc"
