#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "engine/core/block_manager.h"
#include "engine/core/engine_core.h"

namespace quire {

// One request's share of a step.
struct ScheduledEntry {
  Request* request = nullptr;
  ScheduledWork work;
  bool admitted = false;  // came from the waiting queue in this step
  RequestStatus status_before = RequestStatus::kRunning;
};

struct Schedule {
  std::vector<ScheduledEntry> entries;  // running requests first, then admissions
  std::vector<Preemption> preempted;
  int token_budget = 0, budget_left = 0;
  int chunk_limit = 0;  // most prefill tokens one request could get
};

// Whom to take blocks from so that `needy` can go on. `candidates` are running, in order.
using VictimPolicy = Request* (*)(std::span<Request* const> candidates, const Request& needy);
Request* newest_victim(std::span<Request* const> candidates, const Request& needy);

// Decides what each step computes: running requests first, in order of arrival, then the waiting
// queue, first come first served. Between two steps a running request's table covers exactly its
// computed tokens and a waiting one holds nothing. Every `schedule` is followed by `commit` or
// `rollback`. Does not own requests. Engine thread only.
class Scheduler {
 public:
  // `config` is read at every step; it and `blocks` must outlive the scheduler.
  Scheduler(const EngineConfig& config, BlockManager& blocks, VictimPolicy victim = newest_victim);

  void add(Request& request) { waiting_.push_back(&request); }

  // Chooses this step's work, takes its blocks and publishes the ones it will fill. Preempts when
  // a running request finds no block; admits nothing in a step that preempted. A request is
  // admitted only if its whole present input fits the blocks nobody running still needs for
  // theirs, so one just resumed is not preempted for want of the same blocks again.
  Schedule schedule();
  // The step ran: its tokens are computed and its hashes stay.
  void commit(const Schedule& schedule);
  // The step did not run: hashes published in it are withdrawn, its blocks given back, and its
  // admissions return to the queue's front with nothing adopted. Preemptions stand, since their
  // blocks may have been overwritten.
  void rollback(const Schedule& schedule);

  // Takes a request out, whatever its state, and frees all it holds. The only way out.
  void release(Request& request);

  const std::vector<Request*>& running() const { return running_; }
  const std::deque<Request*>& waiting() const { return waiting_; }
  // Why the waiting request at `position` waits. Position 0 with kNone: the next step admits it.
  WaitState wait_state(std::size_t position) const;

  void check_integrity() const;

 private:
  struct Admission {
    std::vector<BlockId> adopted;
    int remaining = 0;  // tokens to compute
    int shortfall = 0;  // blocks it lacks
  };

  int chunk_limit() const;
  int chunk(int num_tokens, int budget) const;
  void schedule_running(Schedule& out);
  void admit_waiting(Schedule& out);
  void admit(Request& request, const Admission& admission, int num_tokens, Schedule& out);
  bool make_room(Request& request, int num_tokens, Schedule& out);
  void preempt(Request& victim, const Request& needy, Schedule& out);
  void unschedule(const Request& victim, Schedule& out);
  void place(Request& request, int num_tokens, Schedule& out);
  int blocks_promised() const;
  Admission plan_admission(Request& request, int promised) const;

  const EngineConfig& config_;
  BlockManager& blocks_;
  VictimPolicy choose_victim_;
  std::vector<Request*> running_;
  std::deque<Request*> waiting_;
  // How the last step ended, for wait states.
  int last_budget_left_ = 0;
  bool last_preempted_ = false;
};

}  // namespace quire
