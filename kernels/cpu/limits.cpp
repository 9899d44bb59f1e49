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

using cpu::KernelTable;

constexpr double kRunSeconds = 0.02;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kWorkingSets[] = {kMiB, 8 * kMiB, 32 * kMiB, 128 * kMiB, 512 * kMiB};
constexpr std::int64_t kRounds = 100'000;

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

class Meter {
 public:
  Meter(cpu::Isa isa, const LimitsOptions& options)
      : kernels_(cpu::kernels_of(isa)),
        pool_(options.num_threads > 0 ? options.num_threads : physical_cores(),
              {.on_start = {}, .after_job = kernels_.end_job}),
        repeats_(options.repeats),
        kept_(static_cast<std::size_t>(pool_.num_threads()) * kKeptStride) {}

  int num_threads() const { return pool_.num_threads(); }
  const KernelTable& kernels() const { return kernels_; }

  // kernel(rounds) on one thread, then on all.
  template <typename Kernel>
  MachineLimits::Compute compute(Kernel kernel, int ops_per_round) {
    const auto rate = [&](int threads) {
      const double ops = static_cast<double>(kRounds) * ops_per_round * threads;
      return 1e-9 * median_rate(repeats_, ops, [&] {
               pool_.run(threads,
                         [&](int item, int) { keep(item, static_cast<float>(kernel(kRounds))); });
             });
    };
    return {rate(1), rate(num_threads())};
  }

  MachineLimits::Bandwidth read(std::size_t bytes) {
    cpu::AlignedBytes memory(bytes);
    std::memset(memory.data(), 1, bytes);  // untouched pages would all be the one page of zeros
    const int threads = num_threads();
    const std::int64_t part = static_cast<std::int64_t>(bytes / sizeof(float) / threads) / 64 * 64;
    const double rate = median_rate(repeats_, static_cast<double>(part) * 4 * threads, [&] {
      pool_.run(threads, [&](int item, int) {
        keep(item, kernels_.read_sum(memory.as<float>() + item * part, part));
      });
    });
    return {bytes, 1e-9 * rate};
  }

 private:
  static constexpr std::size_t kKeptStride = 16;  // a cache line each

  // Results that are kept are computed.
  void keep(int item, float value) { kept_[static_cast<std::size_t>(item) * kKeptStride] += value; }

  const KernelTable& kernels_;
  cpu::ThreadPool pool_;
  int repeats_;
  std::vector<float> kept_;
};

}  // namespace

double MachineLimits::read_gb_s(std::size_t bytes) const {
  double rate = read.empty() ? 0 : read.front().gb_s;
  for (const Bandwidth& one : read)
    if (one.bytes <= bytes) rate = one.gb_s;
  return rate;
}

std::optional<MachineLimits> measure_limits(const LimitsOptions& options, std::string& error) {
  cpu::Isa isa = cpu::Isa::kScalar;
  if (!cpu::isa_named(options.isa, isa, error)) return std::nullopt;
  const cpu::FlushDenormals flush;
  Meter meter(isa, options);
  const KernelTable& kernels = meter.kernels();
  MachineLimits limits;
  limits.isa = kernels.name;
  limits.num_threads = meter.num_threads();
  limits.fma_gflop_s = meter.compute(kernels.burn_fma, kernels.flops_per_round);
  limits.bf16_gflop_s = kernels.burn_bf16
                            ? meter.compute(kernels.burn_bf16, kernels.bf16_flops_per_round)
                            : limits.fma_gflop_s;
  limits.int8_gop_s = meter.compute(kernels.burn_int8, kernels.int8_ops_per_round);
  for (const std::size_t bytes : kWorkingSets)
    if (bytes <= options.most_bytes) limits.read.push_back(meter.read(bytes));
  return limits;
}

}  // namespace quire
