#include "engine/runner/bench_model_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace quire {
namespace {

constexpr double kBarWidth = 48;

double step_ms(const ModelBenchSeries& series) {
  return seconds_per_step(series) * 1e3;
}

void add_line(fmt::memory_buffer& text, const ModelBenchSeries& s) {
  const auto out = std::back_inserter(text);
  std::string what = fmt::format("{} {}", size_name(s.kind), s.size);
  if (s.kind == ModelBenchKind::kParallel) what += fmt::format(", depth {}", s.depth);
  fmt::format_to(out, "{:<14}{:<26}", kind_name(s.kind), what);
  if (s.kind == ModelBenchKind::kSharedPrefix) {
    const Spread seconds = spread(s.seconds);
    fmt::format_to(out, "{:>9.3f} s      ({:.3f}..{:.3f})   {} of {} prompt tokens cached\n",
                   seconds.median, seconds.max, seconds.min, s.cached_tokens, s.prompt_tokens);
  } else {
    const Spread tok_s = rate(s);
    fmt::format_to(out, "{:>9.1f} tok/s  ({:.1f}..{:.1f})   step {:.2f} ms\n", tok_s.median,
                   tok_s.min, tok_s.max, step_ms(s));
  }
}

void add_bars(fmt::memory_buffer& text, const std::vector<ModelBenchSeries>& all,
              ModelBenchKind kind) {
  std::vector<const ModelBenchSeries*> shown;
  double longest = 0;
  for (const ModelBenchSeries& series : all) {
    if (series.kind != kind) continue;
    shown.push_back(&series);
    longest = std::max(longest, step_ms(series));
  }
  if (shown.size() < 2) return;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "\n{:>8}  ms a step\n", size_name(kind));
  for (const ModelBenchSeries* series : shown) {
    const auto width = std::max(1L, std::lround(kBarWidth * step_ms(*series) / longest));
    fmt::format_to(out, "{:>8}  {:#<{}} {:.2f}\n", series->size, "", width, step_ms(*series));
  }
}

}  // namespace

std::string model_bench_text(const ModelBenchRun& run) {
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{} ({}), {}\n", run.model, run.description, run.backend);
  fmt::format_to(out, "medians of {} rounds (slowest..fastest)\n", run.options.rounds);
  for (const ModelBenchSeries& series : run.series) add_line(text, series);
  if (const auto seconds = seconds_per_context_token(run.series))
    fmt::format_to(out,
                   "\nA token of context adds {:.2f} us to a step of one stream; its keys and "
                   "values are {:.1f} kB.\n",
                   *seconds * 1e6, static_cast<double>(run.kv_bytes_per_token) / 1e3);
  add_bars(text, run.series, ModelBenchKind::kDecode);
  add_bars(text, run.series, ModelBenchKind::kParallel);
  return fmt::to_string(text);
}

}  // namespace quire
