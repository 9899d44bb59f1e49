#include "kernels/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/cpu/detect.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/thread_pool.h"

namespace quire {
namespace {

constexpr double kRunSeconds = 0.02;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kWorkingSets[] = {kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB, 512 * kMiB};
constexpr std::int64_t kFmaRounds = 100'000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Units a second: `pass` does `units` of them on every thread, again until the time is over.
template <typename Pass>
double median_rate(int repeats, double units, const Pass& pass) {
  std::vector<double> rates;
  pass();
  for (int i = 0; i < repeats; ++i) {
    const double start = now_s();
    double end = start, done = 0;
    for (; end - start < kRunSeconds; end = now_s()) {
      pass();
      done += units;
    }
    rates.push_back(done / (end - start));
  }
  std::ranges::nth_element(rates, rates.begin() + repeats / 2);
  return rates[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace

MachineLimits measure_limits(int num_threads, int repeats, std::size_t most_bytes) {
  const cpu::KernelTable& kernels = cpu::kernels_of(cpu::detect());
  const cpu::FlushDenormals flush;
  cpu::ThreadPool pool(num_threads > 0 ? num_threads : physical_cores());
  const int threads = pool.num_threads();
  MachineLimits limits;
  limits.isa = kernels.name;
  limits.num_threads = threads;
  std::vector<float> sums(static_cast<std::size_t>(threads) * 16);  // a line each; keeps the work
  const double flops = static_cast<double>(kFmaRounds) * kernels.flops_per_round * threads;
  limits.fma_gflop_s = 1e-9 * median_rate(repeats, flops, [&] {
                         pool.run(threads, [&](int item, int) {
                           sums[static_cast<std::size_t>(item) * 16] +=
                               kernels.burn_fma(kFmaRounds);
                         });
                       });
  for (const std::size_t bytes : kWorkingSets) {
    if (bytes > most_bytes) break;
    cpu::AlignedBytes memory(bytes);
    std::memset(memory.data(), 1, bytes);  // untouched pages would all be the one page of zeros
    const std::int64_t part = static_cast<std::int64_t>(bytes / sizeof(float) / threads) / 64 * 64;
    const double rate = median_rate(repeats, static_cast<double>(part) * 4 * threads, [&] {
      pool.run(threads, [&](int item, int) {
        sums[static_cast<std::size_t>(item) * 16] +=
            kernels.read_sum(memory.as<float>() + item * part, part);
      });
    });
    limits.read.push_back({bytes, 1e-9 * rate});
  }
  return limits;
}

}  // namespace quire
