#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <new>
#include <thread>

#include "tests/core/fuzz_run.h"

namespace quire::test {
namespace {

constexpr rlim_t kMostCpuSeconds = 60;  // of one case; far more than any takes
constexpr std::size_t kMostText = 16 * 1024;

// A case in a process of its own.
class Child {
 public:
  explicit Child(const FuzzCase& fuzz_case) {
    void* shared = mmap(nullptr, sizeof(FuzzProgress), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(shared != MAP_FAILED && pipe(pipe_) == 0, "a process can be watched");
    progress_ = new (shared) FuzzProgress;
    std::fflush(nullptr);
    pid_ = fork();
    require(pid_ >= 0, "a process can be started");
    if (pid_ == 0) run(fuzz_case);
    close(pipe_[1]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { munmap(progress_, sizeof(FuzzProgress)); }

  FuzzFailure wait(Tallies* tallies) {
    FuzzFailure failure;
    char buffer[1024];
    for (ssize_t n; (n = read(pipe_[0], buffer, sizeof buffer)) > 0;)
      if (failure.what.size() < kMostText) failure.what.append(buffer, static_cast<std::size_t>(n));
    close(pipe_[0]);
    int status = 0;
    waitpid(pid_, &status, 0);
    failure.failed = status != 0;
    failure.op = progress_->op;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) failure.what += "it does not end";
    if (failure.failed && failure.what.empty()) failure.what = "the process died";
    if (tallies != nullptr) tallies->add(progress_->tallies);
    return failure;
  }

 private:
  [[noreturn]] void run(const FuzzCase& fuzz_case) {
    close(pipe_[0]);
    dup2(pipe_[1], STDERR_FILENO);
    const rlimit none{0, 0}, limited{kMostCpuSeconds, kMostCpuSeconds + 1};
    std::signal(SIGABRT, SIG_DFL);  // Qt Test's handler would tell of it
    std::signal(SIGSEGV, SIG_DFL);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &limited);
    try {
      run_case(fuzz_case, *progress_);
    } catch (const std::exception& e) {
      std::fputs(e.what(), stderr);
      std::fflush(stderr);
      _exit(1);
    }
    _exit(0);
  }

  FuzzProgress* progress_ = nullptr;
  int pipe_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace

FuzzFailure run_isolated(const FuzzCase& fuzz_case, Tallies* tallies) {
  return Child(fuzz_case).wait(tallies);
}

FuzzBatch run_seeds(unsigned first, int num_cases, int steps_per_case) {
  FuzzBatch batch;
  const unsigned at_once = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
  std::deque<std::pair<unsigned, std::unique_ptr<Child>>> live;
  const auto collect = [&] {
    const FuzzFailure failure = live.front().second->wait(&batch.tallies);
    if (failure.failed && !batch.failed) {
      batch.failed = true;
      batch.seed = live.front().first;
      batch.what = failure.what;
    }
    live.pop_front();
  };
  for (unsigned seed = first; seed < first + static_cast<unsigned>(num_cases); ++seed) {
    if (batch.failed) break;
    if (live.size() == at_once) collect();
    live.emplace_back(seed, std::make_unique<Child>(random_case(seed, steps_per_case)));
  }
  while (!live.empty()) collect();
  return batch;
}

}  // namespace quire::test
