#pragma once

#include "tests/core/fuzz_model.h"

namespace quire::test {

// Checks one record of the engine against the model as it stood before, and brings the model to
// where it should stand now. Throws Violation.
class StepCheck {
 public:
  StepCheck(FuzzModel& model, const StepRecord& record);
  void run();

 private:
  struct Before {
    RequestStatus status;
    int computed;
  };

  void end_empty_requests();
  void check_limits() const;
  void check_running_plan() const;
  void walk_events();
  void before_event(std::size_t at);
  bool makes_room(std::size_t at) const;
  RequestId starts_admission(std::size_t at) const;
  void preempt(const Preemption& preemption);
  void check_victim(const ModelRequest& victim, const Preemption& preemption);
  const ModelRequest* expected_victim() const;
  void check_displaced(const ModelRequest& victim, const Preemption& preemption) const;
  bool swaps(const ModelRequest& victim) const;
  void take_swap_outs(ModelRequest& victim, int blocks);
  void admit(const ScheduledWork& work);
  void overtake(const ModelRequest& request);
  void take_moves(const ModelRequest& request, const ModelAdmission& plan, int computed);
  void place(const ScheduledWork& work);
  void end_plan();
  void check_moves() const;
  void check_nobody_left_out();
  void complete();
  void deliver(const ScheduledWork& work);
  void cancel();
  void fail();
  void check_totals();
  int num_partial() const;
  bool is_victim(RequestId id) const;
  const ScheduledWork* work_of(RequestId id) const;

  FuzzModel& model_;
  const StepRecord& record_;
  std::map<RequestId, Before> admitted_;  // in this step, as they were before it
  std::vector<RequestId> admissions_;     // in order
  std::map<RequestId, std::vector<RequestId>> overtaken_by_;
  std::map<RequestId, int> placed_;  // tokens planned, in the order of the plan
  std::vector<std::pair<BlockMove, std::size_t>> moves_in_;  // and the table entry they must fill
  std::size_t next_move_ = 0, next_preemption_ = 0;
  int budget_left_ = 0, prefill_left_ = 0;
  StepTokens tokens_;
  bool planned_ = false;
};

// A record that no step made: an abort or a reset.
void check_between_steps(FuzzModel& model, const StepRecord& record, bool reset);
// The engine's own account equals the model's.
void check_snapshot(FuzzModel& model, const StepRecord& record, const EngineSnapshot& snapshot);

}  // namespace quire::test
