#include "engine/runner/simulation.h"

#include <algorithm>
#include <span>

#include "engine/runner/bench_clock.h"

namespace quire {
namespace {

// The engine core looks at its clock when a step begins and again when it is decided; the wall time
// between those two looks is what deciding took.
class DecisionWatch {
 public:
  void step_begins() { looks_ = 0; }
  void look() {
    if (++looks_ == 1) began_ = bench_clock();
    if (looks_ == 2) total_s_ += bench_clock() - began_;
  }
  double total_s() const { return total_s_; }

 private:
  int looks_ = 2;
  double began_ = 0, total_s_ = 0;
};

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options)
      : runner_(options.costs, options.vocab_size,
                options.tokens ? options.tokens : fixed_tokens(options.vocab_size)),
        core_(options.config, runner_,
              [this] {
                watch_.look();
                return runner_.now_s();
              }),
        measured_(make_measured_decisions(options.costs.move_us_per_block)),
        changes_(options.changes) {
    core_.set_decision_source(options.decisions != nullptr ? options.decisions : measured_.get());
  }

  EngineCore& core() { return core_; }

  SimulationResult run(const RequestSource& source) {
    const double start = bench_clock();
    auto next = source();
    while (next || core_.has_unfinished()) {
      change_settings();
      for (; next && next->arrival_s <= runner_.now_s(); next = source()) arrive(std::move(*next));
      if (core_.has_unfinished())
        step();
      else if (next)
        runner_.advance_to(next->arrival_s);
    }
    return SimulationResult{metrics_.report(core_.counters()), bench_clock() - start,
                            watch_.total_s(), overtaken_max_, refused_};
  }

 private:
  static CostRunner::TokenSource fixed_tokens(int vocab_size) {
    return [vocab_size](RequestId request, int place) {
      return static_cast<TokenId>((index(request) * 31 + place * 7 + 11) % vocab_size);
    };
  }

  void change_settings() {
    for (; changed_ < changes_.size() && changes_[changed_].time_s <= runner_.now_s(); ++changed_)
      (void)core_.reconfigure(changes_[changed_].config);
  }

  void arrive(TimedRequest next) {
    const RequestId id = next.request->id;
    next.request->arrival_time_s = next.arrival_s;
    const Status added = core_.add_request(std::move(next.request));
    if (added.ok()) {
      metrics_.arrived(id, next.arrival_s);
      return;
    }
    metrics_.rejected();
    if (refused_.empty()) refused_ = added.error().message;
  }

  void step() {
    const double began = runner_.now_s();
    watch_.step_begins();
    for (const RequestOutput& output : core_.step()) {
      metrics_.started(output.request, began);
      metrics_.produced(output.request, static_cast<int>(output.tokens.size()), runner_.now_s());
      if (output.finish_reason == FinishReason::kNone) continue;
      metrics_.ended(output.request, true);
      overtaken_max_ = std::max(overtaken_max_, core_.find(output.request)->num_overtaken);
    }
  }

  CostRunner runner_;
  DecisionWatch watch_;
  ServingMetrics metrics_;
  EngineCore core_;
  std::unique_ptr<DecisionSource> measured_;
  std::span<const TimedConfig> changes_;
  std::size_t changed_ = 0;  // how many came into force
  int overtaken_max_ = 0;
  std::string refused_;
};

}  // namespace

Result<SimulationResult> simulate(const SimulationOptions& options, const RequestSource& source) {
  QUIRE_RETURN_IF_ERROR(validate(options.config));
  Simulation simulation(options);
  if (options.on_begin) QUIRE_RETURN_IF_ERROR(options.on_begin(simulation.core()));
  return simulation.run(source);
}

}  // namespace quire
