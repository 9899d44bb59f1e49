#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/block_move.h"
#include "engine/core/decision_inputs.h"
#include "engine/core/engine_config.h"
#include "engine/core/ids.h"
#include "engine/core/request.h"

// The engine's one event stream. Every view, metric, trace and bench reads these records and
// nothing else.
namespace quire {

enum class WorkKind : std::uint8_t { kPrefill, kDecode, kRecompute, kVerify };

// One entry of a step's plan: compute the next `num_tokens` of `request`.
struct ScheduledWork {
  RequestId request = kNoRequest;
  int num_tokens = 0;
  WorkKind kind = WorkKind::kPrefill;
  int num_computed_tokens = 0;  // before this step
  int num_cached_tokens = 0;    // adopted from the prefix cache by this step's admission; else 0
  bool operator==(const ScheduledWork&) const = default;
};

enum class BlockEventKind : std::uint8_t {
  kAlloc,     // taken from the free queue for `request`
  kAdopt,     // a cached block joined `request`'s table
  kPublish,   // findable under `hash` from now on
  kWithdraw,  // the hash published in a step that failed was taken back
  kEvict,     // its cached contents were given up so that it could be reused
  kFree,      // ref_count reached zero; keeps its hash if it has one
  kRelease,   // `request` gave its reference back, others keep theirs
};

struct BlockEvent {
  BlockEventKind kind = BlockEventKind::kAlloc;
  BlockId block = kNoBlock;
  RequestId request = kNoRequest;  // whom it concerns; kNoRequest for evictions
  BlockHash hash{};                // kPublish, kWithdraw, kAdopt and kEvict
  bool operator==(const BlockEvent&) const = default;
};

enum class PreemptReason : std::uint8_t {
  kOutOfBlocks,  // a running request found no block
  kPriority,     // a waiting request of higher priority took its place
};

struct Preemption {
  RequestId victim = kNoRequest;
  RequestId for_request =
      kNoRequest;  // whose allocation needed the blocks; may be the victim itself
  PreemptReason reason = PreemptReason::kOutOfBlocks;
  int blocks_released = 0;  // references given back
  int tokens_lost = 0;      // computed tokens to recompute (before any prefix hit on return)
  int blocks_swapped = 0;   // copied to host memory instead; then tokens_lost is 0
  bool operator==(const Preemption&) const = default;
};

// Why a request waits, with what it lacks.
enum class WaitReason : std::uint8_t {
  kNone,
  kBlocks,       // shortfall in blocks
  kTokenBudget,  // this step's token budget is spent
  kSeqs,         // max_num_seqs are running
  kPreemption,   // nothing is admitted in a step that preempted
  kBehind,   // the request ahead of it must be admitted first; shortfall = its place in the queue
  kAging,    // as kBehind, but the head was passed over as often as the policy allows
  kSwapped,  // its keys and values are in host memory; shortfall in blocks to bring them back
  kPartialPrefills,  // max_num_partial_prefills are mid-prompt; shortfall in requests
};

struct WaitState {
  RequestId request = kNoRequest;
  WaitReason reason = WaitReason::kNone;
  int shortfall = 0;
  bool operator==(const WaitState&) const = default;
};

struct FinishRecord {
  RequestId request = kNoRequest;
  FinishReason reason = FinishReason::kNone;
  int num_output_tokens = 0;
  bool operator==(const FinishRecord&) const = default;
};

// Where a prompt left the closest cached prefix: its first token that no cached block continues
// with. Only when some block continued at all.
struct NearMiss {
  RequestId request = kNoRequest;
  int position = 0;  // of that token in the request
  TokenId wanted = 0, cached = 0;
  bool operator==(const NearMiss&) const = default;
};

struct SampledToken {
  RequestId request = kNoRequest;
  TokenId token = 0;
  bool operator==(const SampledToken&) const = default;
};

// Tokens proposed for `request` after this step, to be verified in its next one.
struct DraftProposal {
  RequestId request = kNoRequest;
  std::vector<TokenId> tokens;
  bool operator==(const DraftProposal&) const = default;
};

// How many of the drafts this step verified equal what was sampled.
struct DraftVerification {
  RequestId request = kNoRequest;
  int num_drafts = 0, num_accepted = 0;
  bool operator==(const DraftVerification&) const = default;
};

// Tokens of one step.
struct StepTokens {
  int cached = 0;      // adopted or copied from the prefix cache by its admissions
  int computed = 0;    // scheduled
  int recomputed = 0;  // of those, computed before and lost in a preemption
  int evicted = 0;     // held by cached blocks it gave up
  bool operator==(const StepTokens&) const = default;
};

// Phases of a step in microseconds of the injected clock.
struct StepTimes {
  double start_s = 0;  // clock at the step's begin
  float schedule_us = 0, prepare_us = 0, forward_us = 0, sample_us = 0, update_us = 0;
  float move_us = 0;  // block moves, part of prepare_us
  float total_us() const { return schedule_us + prepare_us + forward_us + sample_us + update_us; }
};

enum class StepOutcome : std::uint8_t { kCompleted, kCancelled, kFailed };

// Running totals since the engine began. Prefix figures are in tokens and count once per successful
// admission, resumes included.
struct EngineCounters {
  std::int64_t steps = 0;  // that ran to their end
  std::int64_t prefix_cache_queries = 0, prefix_cache_hits = 0;
  std::int64_t preemptions = 0;
  std::int64_t prompt_tokens =
      0;  // prompt tokens of admitted requests, cached or computed, once each
  std::int64_t generation_tokens = 0;
  std::int64_t evictions = 0;  // cached blocks given up
  std::int64_t recomputed_tokens = 0;
  std::int64_t swap_preemptions = 0, displacements = 0;  // of the preemptions
  std::int64_t blocks_swapped_out = 0, blocks_swapped_in = 0;
  std::int64_t partial_copies = 0;  // prefix hits that ended inside a block
  std::int64_t draft_tokens = 0, accepted_draft_tokens = 0;
  std::int64_t requests_finished = 0, requests_aborted = 0;
  bool operator==(const EngineCounters&) const = default;
};

// What happened since the previous record. One without scheduled work tells of an abort or a cache
// reset between two steps, or of requests that ended before they ran.
struct StepRecord {
  std::uint64_t step = 0;  // counts records, from 1
  StepOutcome outcome = StepOutcome::kCompleted;
  StepTimes times;
  std::vector<ScheduledWork> scheduled;
  std::vector<RequestId> admitted;
  std::vector<Preemption> preempted;
  std::vector<FinishRecord> finished;
  std::vector<SampledToken> sampled;
  std::vector<DraftVerification> verified;
  std::vector<DraftProposal> drafted;
  // Only those that changed since the last record; a place in the queue alone is no change.
  std::vector<WaitState> waits;
  std::vector<NearMiss> near_misses;  // of the admissions
  std::vector<BlockEvent> blocks;
  std::vector<BlockMove> moves;  // made before the forward, in order
  StepTokens tokens;
  DecisionInputs inputs;  // what its decisions took from the clock
  StepShape shape;
  bool contended = false;                // a stream was decoding when it was planned
  int token_budget = 0;                  // max_num_batched_tokens of this step
  int chunk_limit = 0;                   // most prefill tokens one request could get in this step
  int prefill_limit = 0;                 // most prefill tokens of all requests together
  int num_running = 0, num_waiting = 0;  // after the step
  int num_free_blocks = 0, num_blocks = 0;  // free = empty or cached but unreferenced
  int num_cached_blocks = 0;                // of the free ones, how many still carry a hash
  EngineCounters totals;                    // after the step
};

// Between steps.
struct ArrivalRecord {
  RequestId request = kNoRequest;
  std::string label;
  double time_s = 0;
  std::vector<TokenId> prompt_token_ids;
  SamplingParams params;  // with the seed in force
  std::string cache_key, cache_salt;
  std::vector<TokenId> eos_token_ids;
  int priority = 0;
};

struct AbortRecord {
  RequestId request = kNoRequest;
  double time_s = 0;
};

struct ReconfigureRecord {
  double time_s = 0;
  EngineConfig config;  // in force from now on
};

struct CacheResetRecord {
  double time_s = 0;
};

// Synchronous reader: called on the engine thread, in order, never loses a record. Must be quick.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_step(const std::shared_ptr<const StepRecord>& record) = 0;
  virtual void on_arrival(const ArrivalRecord&) {}
  virtual void on_abort(const AbortRecord&) {}
  virtual void on_reconfigure(const ReconfigureRecord&) {}
  virtual void on_cache_reset(const CacheResetRecord&) {}
};

// The pool and queues as they stand, so that a reader that lost records can rejoin.
struct BlockView {
  std::int32_t ref_count = 0;
  bool hashed = false;
  RequestId owner = kNoRequest;  // the request that first took it since it was last free
};

struct RequestView {
  RequestId id = kNoRequest;
  std::string label;
  RequestStatus status = RequestStatus::kWaiting;
  int num_prompt_tokens = 0, num_tokens = 0, num_computed_tokens = 0, num_cached_tokens = 0,
      num_preemptions = 0;
  double arrival_time_s = 0, first_token_time_s = -1;
  WaitState wait;
  std::vector<BlockId> block_table;
};

struct EngineSnapshot {
  std::uint64_t step = 0;  // of the last StepRecord
  int block_size = 0;
  std::vector<BlockView> blocks;
  std::vector<RequestView> requests;  // running in order, then waiting in order
  EngineCounters totals;
};

}  // namespace quire
