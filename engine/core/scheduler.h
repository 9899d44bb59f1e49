#pragma once

#include <deque>
#include <span>
#include <vector>

#include "engine/core/block_manager.h"
#include "engine/core/decision_inputs.h"
#include "engine/core/engine_config.h"
#include "engine/core/step_record.h"
#include "engine/core/swap_pool.h"

namespace quire {

// One request's share of a step.
struct ScheduledEntry {
  Request* request = nullptr;
  ScheduledWork work;
  bool admitted = false;  // came from the waiting queue in this step
  // Before this step, for admissions:
  RequestStatus status_before = RequestStatus::kRunning;
  int num_computed_before = 0;
  bool overtook = false;  // requests ahead of it in the queue stayed
  bool partial_copy = false;
};

struct Schedule {
  std::vector<ScheduledEntry> entries;  // running requests first, then admissions
  std::vector<Preemption> preempted;
  std::vector<BlockMove> moves;  // to be made even if the step does not run
  std::vector<NearMiss> near_misses;
  StepTokens tokens;
  StepShape shape;
  bool contended = false;        // a running request was decoding
  bool prefill_waiting = false;  // a prompt had tokens left that this step does not take
  int token_budget = 0, budget_left = 0;
  int prefill_limit = 0, prefill_left = 0;
  int chunk_limit = 0;  // most prefill tokens one request could get
};

// Whom to take blocks from. `candidates` are running, in the order they were admitted, and all of
// the lowest priority there is among those that may be taken. Pure.
using VictimPolicy = Request* (*)(std::span<Request* const> candidates, const BlockManager& blocks);
Request* last_victim(std::span<Request* const> candidates, const BlockManager& blocks);
// Fewest computed tokens per block nobody else holds; of equals the last. One that frees no block
// only if none frees any.
Request* cheapest_victim(std::span<Request* const> candidates, const BlockManager& blocks);
// Whether bringing `num_blocks` to the host and back takes less time than computing `num_tokens`
// again; false while either rate is unknown. Pure.
bool swap_is_cheaper(const DecisionInputs& inputs, int num_tokens, int num_blocks);

// Decides what each step computes: running requests first, then the waiting queue in the policy's
// order. Between two steps a running request's table covers exactly its computed tokens, a swapped
// one holds host blocks for them, and every other waiting one holds nothing. Every `schedule` is
// followed by `commit` or `rollback`. Does not own requests. Engine thread only.
class Scheduler {
 public:
  // Under kLpm at most so many requests from the queue's front are compared.
  static constexpr int kLpmWindow = 128;

  // `config` is read at every step; all must outlive the scheduler.
  Scheduler(const EngineConfig& config, BlockManager& blocks, SwapPool& swap);

  void add(Request& request) { enqueue(request); }
  // The policy changed: puts the queue in its order.
  void reorder();

  // Chooses this step's work, takes its blocks and publishes the ones it will fill. Preempts when
  // a running request finds no block; admits nothing in a step that preempted, except a request of
  // higher priority in the place of the ones it displaced. A request is admitted only if its whole
  // present input fits the blocks nobody running still needs for theirs, so one just resumed is not
  // preempted for want of the same blocks again.
  Schedule schedule(const DecisionInputs& inputs = {});
  // The step ran: its tokens are computed, its hashes stay, host copies brought back are dropped.
  void commit(const Schedule& schedule);
  // The step did not run: hashes published in it are withdrawn, its blocks given back, and its
  // admissions return to their places in the queue with nothing adopted. Preemptions stand, since
  // their blocks may have been overwritten.
  void rollback(const Schedule& schedule);

  // Takes a request out, whatever its state, and frees all it holds. The only way out.
  void release(Request& request);

  const std::vector<Request*>& running() const { return running_; }  // in order of admission
  const std::deque<Request*>& waiting() const { return waiting_; }   // in the policy's base order
  // Why each waiting request waits, in queue order. kNone: the next step admits it.
  std::vector<WaitState> wait_states() const;
  WaitState wait_state(const Request& request) const;

  void check_integrity() const;

 private:
  struct Admission {
    PrefixMatch adopted;
    int num_computed = 0;  // once its blocks are there
    int shortfall = 0;     // blocks it lacks
  };

  void enqueue(Request& request);
  bool ahead(const Request& a, const Request& b) const;
  bool aged(const Request& request) const;
  std::size_t next_waiting() const;

  int request_limit() const;
  int prefill_chunk(int num_tokens, const Schedule& out) const;
  int num_partial_prefills(const Schedule& out) const;
  std::vector<Request*> running_order() const;
  void begin(const DecisionInputs& inputs, Schedule& out) const;
  void schedule_running(Schedule& out);
  bool fits_last_block(const Request& request, int n) const;
  bool make_room(Request& request, int& num_tokens, Schedule& out);
  Request* choose_victim() const;
  void preempt(Request& victim, const Request& needy, PreemptReason reason, Schedule& out);
  bool swap_out(Request& victim, Schedule& out);
  void unschedule(const Request& victim, Schedule& out);
  static bool take_back(const Request& request, Schedule& out);
  void place(Request& request, int num_tokens, Schedule& out);

  void admit_waiting(Schedule& out);
  int blocks_promised() const;
  Admission plan_admission(Request& request, int promised) const;
  int admission_tokens(const Request& request, int num_computed, int num_partial,
                       const Schedule& out) const;
  void drop_fresh(Admission& admission) const;
  bool displace_for(Request& request, Admission admission, int promised, Schedule& out);
  std::vector<Request*> displaceable(const Request& request) const;
  void admit(std::size_t position, const Admission& admission, int num_tokens, Schedule& out);
  void bring_contents(Request& request, const PrefixMatch& adopted, Schedule& out);
  WaitState head_state(Request& request) const;

  const EngineConfig& config_;
  BlockManager& blocks_;
  SwapPool& swap_;
  DecisionInputs inputs_;  // of the step being planned
  std::vector<Request*> running_;
  std::deque<Request*> waiting_;
  // How the last step ended, for wait states.
  int last_budget_left_ = 0, last_prefill_left_ = 0, last_partial_prefills_ = 0;
  bool last_preempted_ = false;
};

}  // namespace quire
