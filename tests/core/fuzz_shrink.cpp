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
    rule_ = rule_of(failure);
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
  // What was broken, without the values it was broken with.
  static std::string rule_of(const FuzzFailure& failure) {
    return failure.what.substr(0, failure.what.find('['));
  }

  bool keep_if_failing(const FuzzCase& trial) {
    if (trials_-- <= 0) return false;
    const FuzzFailure failure = run_isolated(trial);
    if (!failure.failed || rule_of(failure) != rule_) return false;
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
  std::string rule_;
  int trials_;
  bool smaller_ = false;
};

// Least counts in a million steps.
struct Floor {
  Tally tally;
  std::int64_t least;
};
constexpr Floor kFloors[] = {
    {Tally::kRecomputePreemptions, 8000},
    {Tally::kSwapPreemptions, 3000},
    {Tally::kDisplacements, 3000},
    {Tally::kEvictions, 300000},
    {Tally::kPartialCopies, 10000},
    {Tally::kSameStepAdoptions, 3000},
    {Tally::kAbortedWaiting, 3000},
    {Tally::kAbortedPartialPrefill, 1000},
    {Tally::kAbortedDecoding, 3000},
    {Tally::kAbortedPreempted, 500},
    {Tally::kAbortedSwapped, 100},
    {Tally::kAbortedAtFinish, 600},
    {Tally::kSwapIns, 2500},
    {Tally::kOvertakes, 10000},
    {Tally::kAcceptedDrafts, 100000},
    {Tally::kRejectedDrafts, 100000},
    {Tally::kCancelledSteps, 20000},
    {Tally::kFailedSteps, 60},
    {Tally::kResets, 2000},
    {Tally::kReconfigurations, 8000},
    {Tally::kRefusals, 10000},
    {Tally::kFinished, 80000},
};

}  // namespace

FuzzCase shrink(FuzzCase failing, int trials) {
  return Shrinker(std::move(failing), trials).run();
}

std::string explain(const FuzzBatch& batch, int steps_per_case) {
  const FuzzCase least = shrink(random_case(batch.seed, steps_per_case));
  return "seed " + std::to_string(batch.seed) + ": " + batch.what +
         "\nThe least case that fails alike:\n" + describe(least) + run_isolated(least).what;
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
