#pragma once

#include <array>
#include <set>

#include "engine/core/engine_config.h"
#include "tests/core/fuzz_pool.h"

namespace quire::test {

// What happened in random serving, so that a run can show that it met what it claims to test.
enum class Tally {
  kSteps,
  kRecomputePreemptions,
  kSwapPreemptions,
  kDisplacements,
  kEvictions,
  kPartialCopies,
  kSameStepAdoptions,
  kAbortedWaiting,
  kAbortedPartialPrefill,
  kAbortedDecoding,
  kAbortedPreempted,
  kAbortedSwapped,
  kAbortedAtFinish,
  kSwapIns,
  kOvertakes,
  kAcceptedDrafts,
  kRejectedDrafts,
  kCancelledSteps,
  kFailedSteps,
  kResets,
  kReconfigurations,
  kRefusals,
  kFinished,
  kCount,
};
inline constexpr int kNumTallies = static_cast<int>(Tally::kCount);
const char* tally_name(Tally tally);

struct Tallies {
  std::array<std::int64_t, kNumTallies> counts{};
  std::int64_t& operator[](Tally tally) { return counts[static_cast<std::size_t>(tally)]; }
  void add(const Tallies& other);
};

// What is left of a step's limits once its last request was placed.
struct LastStep {
  bool known = true;  // false: the step left no record
  int budget_left = 0, prefill_left = 0, partial_prefills = 0;
  bool preempted = false;
};

// What admitting a waiting request would take.
struct ModelAdmission {
  ModelMatch match;
  int least_computed = 0, most_computed = 0;
  int shortfall = 0;
};

// The engine's requests as a second account keeps them, and the policies' rules in their plainest
// form.
class FuzzModel {
 public:
  explicit FuzzModel(const EngineConfig& engine_config);

  void arrive(const Request& request, std::vector<TokenId> answer);
  void reconfigure(const EngineConfig& wanted);
  void reset();
  void end(RequestId id);  // whatever ended it

  ModelRequest* find(RequestId id);
  std::vector<ModelRequest*> waiting();  // in the policy's base order
  int remaining(const ModelRequest& request) const {
    return request.num_tokens() - request.computed;
  }
  int request_limit() const;
  int promised() const;  // blocks the running ones lack for what they have
  // Smallest and largest cached length that may be found for it.
  ModelAdmission admission(ModelRequest& request);
  // Whether the policy may try `request` first.
  bool may_be_next(ModelRequest& request);
  bool aged(const ModelRequest& request) const;
  std::int32_t num_host_free() const;
  // The reasons `state` gives are true, and its shortfall is what is lacking.
  void check_wait(const WaitState& state);

  EngineConfig config;
  PoolModel pool;
  std::map<RequestId, ModelRequest> requests;  // live ones
  std::vector<RequestId> running;              // in order of admission
  std::set<std::int32_t> host_used;
  EngineCounters totals;
  LastStep last;
  std::map<RequestId, WaitState> waits;  // as last recorded
  Tallies tallies;

 private:
  void check_head_wait(ModelRequest& request, const WaitState& state);
};

}  // namespace quire::test
