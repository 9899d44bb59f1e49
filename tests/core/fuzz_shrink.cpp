#include <algorithm>
#include <functional>
#include <sstream>

#include "tests/core/fuzz_run.h"

namespace quire::test {
namespace {

// Keeps whatever smaller case still fails.
class Shrinker {
 public:
  Shrinker(FuzzCase failing, int trials) : best_(std::move(failing)), trials_(trials) {}

  FuzzCase run() {
    const FuzzFailure failure = run_isolated(best_);
    if (!failure.failed) return best_;
    if (static_cast<std::size_t>(failure.op) + 1 < best_.ops.size()) {
      FuzzCase cut = best_;
      cut.ops.resize(static_cast<std::size_t>(failure.op) + 1);
      keep_if_failing(cut);
    }
    do {
      smaller_ = false;
      leave_out_operations();
      simplify_config();
      simplify_operations();
    } while (smaller_ && trials_ > 0);
    return best_;
  }

 private:
  bool keep_if_failing(const FuzzCase& trial) {
    if (trials_-- <= 0 || !run_isolated(trial).failed) return false;
    best_ = trial;
    return smaller_ = true;
  }

  // Delta debugging: runs of operations, half as long each time nothing more can go.
  void leave_out_operations() {
    for (std::size_t length = std::max<std::size_t>(1, best_.ops.size() / 2); length > 0;
         length /= 2) {
      for (std::size_t begin = best_.ops.size(); begin > 0;) {
        const std::size_t end = std::min(begin, best_.ops.size());
        begin = end > length ? end - length : 0;
        FuzzCase trial = best_;
        trial.ops.erase(trial.ops.begin() + static_cast<std::ptrdiff_t>(begin),
                        trial.ops.begin() + static_cast<std::ptrdiff_t>(end));
        keep_if_failing(trial);
      }
    }
  }

  void simplify_config() {
    for (const ConfigField& field : config_fields(EngineConfig{})) {
      if (field.name == "num_blocks" || field.name == "max_model_len") continue;
      FuzzCase trial = best_;
      (void)set_config_field(trial.config, field.name, field.value);
      if (!(trial.config == best_.config)) keep_if_failing(trial);
    }
    FuzzCase plain = best_;
    plain.drafts = false;
    if (best_.drafts) keep_if_failing(plain);
  }

  void simplify_operations() {
    const std::vector<std::function<void(FuzzOp&)>> ways = {
        [](FuzzOp& op) { op.changed_at = -1; },
        [](FuzzOp& op) { op.continues = -1; },
        [](FuzzOp& op) { op.family = 0; },
        [](FuzzOp& op) { op.length = (op.length + 1) / 2; },
        [](FuzzOp& op) { --op.length; },
        [](FuzzOp& op) { op.max_tokens = std::min(op.max_tokens, 1 + op.max_tokens / 2); },
        [](FuzzOp& op) { op.min_tokens = 0; },
        [](FuzzOp& op) { op.priority = 0; },
        [](FuzzOp& op) { op.ignore_eos = op.other_key = op.other_salt = false; },
    };
    for (std::size_t i = 0; i < best_.ops.size(); ++i) {
      if (best_.ops[i].kind != FuzzOpKind::kAdd) continue;
      for (const auto& simplify : ways) {
        FuzzCase trial = best_;
        simplify(trial.ops[i]);
        if (trial.ops[i].length > 0 && describe(trial) != describe(best_)) keep_if_failing(trial);
      }
    }
  }

  FuzzCase best_;
  int trials_;
  bool smaller_ = false;
};

// Least counts in a million steps.
struct Floor {
  Tally tally;
  std::int64_t least;
};
constexpr Floor kFloors[] = {
    {Tally::kRecomputePreemptions, 20000}, {Tally::kSwapPreemptions, 5000},
    {Tally::kDisplacements, 2000},         {Tally::kEvictions, 50000},
    {Tally::kPartialCopies, 2000},         {Tally::kSameStepAdoptions, 5000},
    {Tally::kAbortedWaiting, 2000},        {Tally::kAbortedPartialPrefill, 1000},
    {Tally::kAbortedDecoding, 2000},       {Tally::kAbortedPreempted, 500},
    {Tally::kAbortedSwapped, 200},         {Tally::kAbortedAtFinish, 500},
    {Tally::kSwapIns, 2000},               {Tally::kOvertakes, 2000},
    {Tally::kAcceptedDrafts, 10000},       {Tally::kRejectedDrafts, 10000},
    {Tally::kCancelledSteps, 10000},       {Tally::kFailedSteps, 100},
    {Tally::kResets, 1000},                {Tally::kReconfigurations, 5000},
    {Tally::kRefusals, 1000},              {Tally::kFinished, 50000},
};

}  // namespace

FuzzCase shrink(FuzzCase failing, int trials) {
  return Shrinker(std::move(failing), trials).run();
}

std::string tally_text(Tallies& tallies) {
  std::ostringstream out;
  for (int i = 0; i < kNumTallies; ++i)
    out << (i > 0 ? ", " : "") << tallies[static_cast<Tally>(i)] << ' '
        << tally_name(static_cast<Tally>(i));
  return out.str();
}

std::string below_floor(Tallies& tallies) {
  std::ostringstream out;
  for (const Floor& floor : kFloors)
    if (tallies[floor.tally] * 1'000'000 < floor.least * tallies[Tally::kSteps])
      out << tallies[floor.tally] << ' ' << tally_name(floor.tally) << " in "
          << tallies[Tally::kSteps] << " steps; ";
  return out.str();
}

}  // namespace quire::test
