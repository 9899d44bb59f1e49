#include "engine/trace/record_text.h"

#include <fmt/format.h>

#include <iterator>

namespace quire {
namespace {

template <typename Enum, std::size_t kCount>
std::string name(Enum value, const char* const (&names)[kCount]) {
  const auto place = static_cast<std::size_t>(value);
  return place < kCount ? names[place] : "unknown";
}

// Appends " | title a; b; c", nothing for an empty list.
template <typename T>
void add_list(std::string& line, const char* title, const std::vector<T>& items) {
  if (items.empty()) return;
  line += fmt::format(" | {}", title);
  const char* separator = " ";
  for (const T& item : items) {
    line += separator + text_of(item);
    separator = "; ";
  }
}

}  // namespace

std::string text_of(WorkKind kind) {
  return name(kind, {"prefill", "decode", "recompute", "verify"});
}

std::string text_of(WaitReason reason) {
  return name(reason, {"nothing", "blocks", "token budget", "a place among the running",
                       "the step after a preemption", "those ahead", "an aged request ahead",
                       "blocks to swap in", "a partial prefill to end"});
}

std::string text_of(FinishReason reason) {
  return name(reason, {"not finished", "stop", "length", "aborted", "error"});
}

std::string text_of(BlockEventKind kind) {
  return name(kind, {"alloc", "adopt", "publish", "withdraw", "evict", "free", "release"});
}

std::string text_of(StepOutcome outcome) {
  return name(outcome, {"completed", "cancelled", "failed"});
}

std::string text_of(RequestId request) {
  return std::to_string(index(request));
}

std::string text_of(const ScheduledWork& work) {
  std::string text = fmt::format("{} {} {} at {}", index(work.request), text_of(work.kind),
                                 work.num_tokens, work.num_computed_tokens);
  if (work.num_cached_tokens > 0) text += fmt::format(" ({} cached)", work.num_cached_tokens);
  return text;
}

std::string text_of(const Preemption& preemption) {
  const bool priority = preemption.reason == PreemptReason::kPriority;
  std::string text = fmt::format(
      "{} for {} ({}), {} blocks", index(preemption.victim), index(preemption.for_request),
      priority ? "priority" : "out of blocks", preemption.blocks_released);
  return text + (preemption.blocks_swapped > 0
                     ? fmt::format(", {} swapped", preemption.blocks_swapped)
                     : fmt::format(", {} tokens lost", preemption.tokens_lost));
}

std::string text_of(const FinishRecord& finish) {
  return fmt::format("{} {} after {}", index(finish.request), text_of(finish.reason),
                     finish.num_output_tokens);
}

std::string text_of(const WaitState& wait) {
  std::string text = fmt::format("{} for {}", index(wait.request), text_of(wait.reason));
  if (wait.shortfall > 0) text += fmt::format(" ({})", wait.shortfall);
  return text;
}

std::string text_of(const NearMiss& miss) {
  return fmt::format("{} at {}: {} not {}", index(miss.request), miss.position, miss.wanted,
                     miss.cached);
}

std::string text_of(const SampledToken& sampled) {
  return fmt::format("{}={}", index(sampled.request), sampled.token);
}

std::string text_of(const DraftVerification& verified) {
  return fmt::format("{} {} of {}", index(verified.request), verified.num_accepted,
                     verified.num_drafts);
}

std::string text_of(const DraftProposal& drafted) {
  return fmt::format("{} [{}]", index(drafted.request), fmt::join(drafted.tokens, " "));
}

std::string text_of(const BlockEvent& event) {
  std::string text = fmt::format("{} {}", text_of(event.kind), index(event.block));
  if (event.request != kNoRequest) text += fmt::format(" ({})", index(event.request));
  return text;
}

std::string text_of(const BlockMove& move) {
  return fmt::format("{} {}>{} {} tokens ({})", name(move.kind, {"copy", "swap out", "swap in"}),
                     move.source, move.target, move.num_tokens, index(move.request));
}

std::string line_of(const StepRecord& record) {
  std::string line = fmt::format("{} {:.6f} s {:.3f} ms", record.step, record.times.start_s,
                                 static_cast<double>(record.times.total_us()) / 1e3);
  if (record.outcome != StepOutcome::kCompleted) line += " " + text_of(record.outcome);
  add_list(line, "run", record.scheduled);
  add_list(line, "preempt", record.preempted);
  add_list(line, "admit", record.admitted);
  add_list(line, "finish", record.finished);
  add_list(line, "sample", record.sampled);
  add_list(line, "verified", record.verified);
  add_list(line, "drafted", record.drafted);
  add_list(line, "wait", record.waits);
  add_list(line, "near miss", record.near_misses);
  add_list(line, "blocks", record.blocks);
  add_list(line, "move", record.moves);
  return line + fmt::format(
                    " | {}budget {}, prefill {} | {} running, {} waiting | {} of {} blocks "
                    "free, {} cached",
                    record.contended ? "contended, " : "", record.token_budget,
                    record.prefill_limit, record.num_running, record.num_waiting,
                    record.num_free_blocks, record.num_blocks, record.num_cached_blocks);
}

}  // namespace quire
