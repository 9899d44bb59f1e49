#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/quire/commands.h"
#include "app/quire/model_flags.h"
#include "engine/trace/perfetto.h"
#include "engine/trace/record_text.h"
#include "engine/trace/replay.h"
#include "engine/trace/stats.h"

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

// Opens a recording and says so when it is not whole. Null: the error was printed.
std::unique_ptr<TraceReader> open_recording(const std::string& path) {
  auto reader = TraceReader::open(path);
  if (!reader.ok()) {
    print_error(reader.error().message);
    return nullptr;
  }
  if (!(*reader)->damage().empty()) print_error((*reader)->damage());
  return std::move(*reader);
}

struct ShowLines {
  std::uint64_t from, to;

  void operator()(const StepRecord& step) {
    before = step.step + 1;
    if (wanted(step.step)) fmt::print("{}\n", line_of(step));
  }
  void operator()(const ArrivalRecord& arrival) {
    if (wanted(before))
      fmt::print("- request {} arrives ({}): {} prompt tokens, at most {} more, priority {}\n",
                 index(arrival.request), arrival.label, arrival.prompt_token_ids.size(),
                 arrival.params.max_tokens, arrival.priority);
  }
  void operator()(const AbortRecord& abort) {
    if (wanted(before)) fmt::print("- request {} is aborted\n", index(abort.request));
  }
  void operator()(const ReconfigureRecord& change) {
    if (!wanted(before)) return;
    fmt::print("- settings:");
    for (const ConfigField& field : config_fields(change.config))
      if (field.live) fmt::print(" {}={}", field.name, field.value);
    fmt::print("\n");
  }
  void operator()(const CacheResetRecord&) {
    if (wanted(before)) fmt::print("- the prefix cache is reset\n");
  }
  void operator()(const EngineSnapshot& snapshot) { before = snapshot.step + 1; }

  bool wanted(std::uint64_t step) const { return step >= from && step <= to; }
  std::uint64_t before = 1;  // the next step's number
};

int show(const std::string& path, std::uint64_t from, std::uint64_t to) {
  const auto reader = open_recording(path);
  if (reader == nullptr) return kExitFailure;
  ShowLines lines{from, to};
  TraceEvent event;
  for (TraceCursor cursor = reader->seek(from); lines.before <= to && cursor.next(event);)
    std::visit(lines, event);
  return kExitOk;
}

Json to_json(const Percentiles& values) {
  if (values.count == 0) return nullptr;
  return {{"count", values.count}, {"mean", values.mean}, {"p50", values.p50}, {"p90", values.p90},
          {"p95", values.p95},     {"p99", values.p99},   {"max", values.max}};
}

Json to_json(const TraceStats& stats) {
  const EngineCounters& totals = stats.totals;
  return {{"steps", stats.steps},
          {"cancelled_steps", stats.cancelled_steps},
          {"failed_steps", stats.failed_steps},
          {"seconds", stats.seconds},
          {"arrivals", stats.arrivals},
          {"finished", stats.finished},
          {"aborted", stats.aborted},
          {"failed", stats.failed},
          {"prefill_tokens", stats.prefill_tokens},
          {"decode_tokens", stats.decode_tokens},
          {"output_tokens", stats.output_tokens},
          {"recomputed_tokens", totals.recomputed_tokens},
          {"prefix_cache_queries", totals.prefix_cache_queries},
          {"prefix_cache_hits", totals.prefix_cache_hits},
          {"hit_rate", stats.hit_rate()},
          {"evictions", totals.evictions},
          {"preemptions", totals.preemptions},
          {"preemptions_recompute", totals.preemptions - totals.swap_preemptions},
          {"preemptions_swap", totals.swap_preemptions},
          {"preemptions_priority", totals.displacements},
          {"blocks_swapped_out", totals.blocks_swapped_out},
          {"blocks_swapped_in", totals.blocks_swapped_in},
          {"draft_tokens", totals.draft_tokens},
          {"accepted_draft_tokens", totals.accepted_draft_tokens},
          {"ttft_ms", to_json(stats.ttft_ms)},
          {"itl_ms", to_json(stats.itl_ms)},
          {"step_ms", to_json(stats.step_ms)},
          {"schedule_ms", to_json(stats.schedule_ms)}};
}

void print_percentiles(const char* name, const Percentiles& values) {
  if (values.count == 0) return;
  fmt::print("  {:<10} {:>9} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f}\n", name,
             values.count, values.mean, values.p50, values.p90, values.p95, values.p99, values.max);
}

void print_stats(const TraceHeader& header, const TraceStats& stats) {
  const EngineCounters& totals = stats.totals;
  fmt::print("{} by {}, {} blocks of {} tokens\n", header.model, header.program,
             header.config.num_blocks, header.config.block_size);
  fmt::print("{} steps in {:.3f} s ({} cancelled, {} failed)\n", stats.steps, stats.seconds,
             stats.cancelled_steps, stats.failed_steps);
  fmt::print("requests: {} arrived, {} finished, {} aborted, {} failed\n", stats.arrivals,
             stats.finished, stats.aborted, stats.failed);
  fmt::print("tokens: {} prefilled ({} of them again), {} decoded, {} sampled\n",
             stats.prefill_tokens, totals.recomputed_tokens, stats.decode_tokens,
             stats.output_tokens);
  fmt::print("prefix cache: {} of {} tokens hit ({:.1f} %), {} blocks evicted\n",
             totals.prefix_cache_hits, totals.prefix_cache_queries, 100 * stats.hit_rate(),
             totals.evictions);
  fmt::print("preemptions: {} recomputed, {} swapped; {} of them for priority\n",
             totals.preemptions - totals.swap_preemptions, totals.swap_preemptions,
             totals.displacements);
  if (totals.draft_tokens > 0)
    fmt::print("drafts: {} of {} accepted\n", totals.accepted_draft_tokens, totals.draft_tokens);
  fmt::print("  {:<10} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "ms", "count", "mean",
             "p50", "p90", "p95", "p99", "max");
  print_percentiles("TTFT", stats.ttft_ms);
  print_percentiles("ITL", stats.itl_ms);
  print_percentiles("step", stats.step_ms);
  print_percentiles("scheduling", stats.schedule_ms);
}

int stats(const std::string& path, bool json) {
  const auto reader = open_recording(path);
  if (reader == nullptr) return kExitFailure;
  const TraceStats figures = trace_stats(*reader);
  if (json)
    fmt::print("{}\n", to_json(figures).dump());
  else
    print_stats(reader->header(), figures);
  return kExitOk;
}

int export_trace(const std::string& path, const std::string& target) {
  const auto reader = open_recording(path);
  if (reader == nullptr) return kExitFailure;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(target.c_str(), "wx"),
                                                             std::fclose);
  if (file == nullptr) {
    print_error(fmt::format("'{}' cannot be written: {}.", target, std::strerror(errno)));
    return kExitFailure;
  }
  bool written = true;
  export_perfetto(*reader, [&](std::string_view text) {
    return written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  });
  if (written && std::fflush(file.get()) == 0) return kExitOk;
  print_error(fmt::format("'{}' could not be written whole: {}.", target, std::strerror(errno)));
  return kExitFailure;
}

int replay_trace(const std::string& path) {
  const auto reader = open_recording(path);
  if (reader == nullptr) return kExitFailure;
  const auto outcome = replay(*reader);
  if (!outcome.ok()) {
    print_error(outcome.error().message);
    return kExitFailure;
  }
  if (!outcome->equal()) {
    fmt::print("{} steps equal. {}\n", outcome->steps_compared, outcome->difference);
    return kExitMismatch;
  }
  fmt::print("{} steps compared, all equal.\n", outcome->steps_compared);
  return kExitOk;
}

void add_show(CLI::App& trace, int& exit_code) {
  struct Flags {
    std::string file;
    std::uint64_t from = 1, to = std::numeric_limits<std::uint64_t>::max();
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = trace.add_subcommand("show", "A line per step: all it decided");
  command->add_option("file", flags->file, "The recording")->required();
  command->add_option("--from", flags->from, "First step");
  command->add_option("--to", flags->to, "Last step");
  command->callback([flags, &exit_code] { exit_code = show(flags->file, flags->from, flags->to); });
}

void add_stats(CLI::App& trace, int& exit_code) {
  struct Flags {
    std::string file;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = trace.add_subcommand("stats", "Counts, hit rate, preemptions, waiting times");
  command->add_option("file", flags->file, "The recording")->required();
  command->add_flag("--json", flags->json, "One JSON object; times in milliseconds");
  command->callback([flags, &exit_code] { exit_code = stats(flags->file, flags->json); });
}

void add_export(CLI::App& trace, int& exit_code) {
  struct Flags {
    std::string file, perfetto;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = trace.add_subcommand("export", "Write it for another program");
  command->add_option("file", flags->file, "The recording")->required();
  command
      ->add_option("--perfetto", flags->perfetto,
                   "New file of Chrome trace events, for ui.perfetto.dev")
      ->required();
  command->callback(
      [flags, &exit_code] { exit_code = export_trace(flags->file, flags->perfetto); });
}

void add_replay(CLI::App& trace, int& exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = trace.add_subcommand(
      "replay", "Decide every step again and compare; exit code 5 names the first that differs");
  command->add_option("file", *file, "The recording")->required();
  command->callback([file, &exit_code] { exit_code = replay_trace(*file); });
}

}  // namespace

void add_trace(CLI::App& app, int& exit_code) {
  CLI::App* trace = app.add_subcommand("trace", "Look into a recording made with serve --record");
  trace->require_subcommand(1);
  add_show(*trace, exit_code);
  add_stats(*trace, exit_code);
  add_export(*trace, exit_code);
  add_replay(*trace, exit_code);
  add_trace_whatif(*trace, exit_code);
}

}  // namespace quire
