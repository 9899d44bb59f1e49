#include "engine/trace/step_difference.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/trace/record_text.h"

namespace quire {
namespace {

std::string both(const std::string& what, const std::string& recorded,
                 const std::string& replayed) {
  return fmt::format("{}: recorded {}, replayed {}", what, recorded, replayed);
}

// Keeps the first difference found.
class Comparison {
 public:
  template <typename T>
  void list(const char* what, const std::vector<T>& recorded, const std::vector<T>& replayed) {
    if (!difference.empty() || recorded == replayed) return;
    const auto [a, b] = std::ranges::mismatch(recorded, replayed);
    difference = both(fmt::format("{}, entry {}", what, a - recorded.begin() + 1),
                      a == recorded.end() ? "none" : "\"" + text_of(*a) + "\"",
                      b == replayed.end() ? "none" : "\"" + text_of(*b) + "\"");
  }
  template <typename T>
  void number(const char* what, T recorded, T replayed) {
    if (difference.empty() && recorded != replayed)
      difference = both(what, fmt::format("{}", recorded), fmt::format("{}", replayed));
  }
  template <typename T>
  void whole(const char* what, const T& recorded, const T& replayed) {
    if (difference.empty() && !(recorded == replayed)) difference = fmt::format("{} differ", what);
  }

  std::string difference;
};

std::vector<BlockEvent> without_hashes(std::vector<BlockEvent> events) {
  for (BlockEvent& event : events) event.hash = {};
  return events;
}

}  // namespace

std::string step_difference(const StepRecord& recorded, const StepRecord& replayed) {
  Comparison compare;
  compare.number("step number", recorded.step, replayed.step);
  compare.whole("the decision inputs", recorded.inputs, replayed.inputs);
  compare.list("scheduled", recorded.scheduled, replayed.scheduled);
  compare.list("preempted", recorded.preempted, replayed.preempted);
  compare.list("admitted", recorded.admitted, replayed.admitted);
  compare.list("block moves", recorded.moves, replayed.moves);
  compare.list("block events", without_hashes(recorded.blocks), without_hashes(replayed.blocks));
  compare.number("outcome", static_cast<int>(recorded.outcome), static_cast<int>(replayed.outcome));
  compare.list("sampled", recorded.sampled, replayed.sampled);
  compare.list("drafts verified", recorded.verified, replayed.verified);
  compare.list("drafts proposed", recorded.drafted, replayed.drafted);
  compare.list("finished", recorded.finished, replayed.finished);
  compare.list("waits", recorded.waits, replayed.waits);
  compare.list("near misses", recorded.near_misses, replayed.near_misses);
  compare.number("contended", recorded.contended, replayed.contended);
  compare.number("token budget", recorded.token_budget, replayed.token_budget);
  compare.number("chunk limit", recorded.chunk_limit, replayed.chunk_limit);
  compare.number("prefill limit", recorded.prefill_limit, replayed.prefill_limit);
  compare.number("running", recorded.num_running, replayed.num_running);
  compare.number("waiting", recorded.num_waiting, replayed.num_waiting);
  compare.number("free blocks", recorded.num_free_blocks, replayed.num_free_blocks);
  compare.number("blocks", recorded.num_blocks, replayed.num_blocks);
  compare.number("cached blocks", recorded.num_cached_blocks, replayed.num_cached_blocks);
  compare.whole("the step's token counts", recorded.tokens, replayed.tokens);
  compare.whole("the step's shape figures", recorded.shape, replayed.shape);
  compare.whole("the running totals", recorded.totals, replayed.totals);
  return compare.difference;
}

}  // namespace quire
