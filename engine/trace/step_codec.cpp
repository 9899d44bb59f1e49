#include "engine/trace/step_codec.h"

#include <algorithm>

#include "engine/trace/wire.h"

namespace quire {
namespace {

// A scheduled entry is one byte when its request follows in the list of the step before, decodes,
// and stands where that step left it.
constexpr std::uint8_t kKindBits = 3;
constexpr std::uint8_t kInPrevious = 1 << 2;  // its request was in the step before, behind the last
constexpr std::uint8_t kSkips = 1 << 3;       // after some that this step leaves out
constexpr std::uint8_t kOneToken = 1 << 4;
constexpr std::uint8_t kPredicted = 1 << 5;  // num_computed_tokens is as expected
constexpr std::uint8_t kNotCached = 1 << 6;
constexpr std::size_t kMostSkipped = 16;

struct WorkContext {
  const StepRecord* previous;
  std::size_t cursor = 0;  // entries of the previous step passed
  RequestId last = kNoRequest;

  const ScheduledWork* at(std::size_t skip) const {
    const auto& list = previous->scheduled;
    return skip < list.size() - std::min(cursor, list.size()) ? &list[cursor + skip] : nullptr;
  }
  std::int64_t computed(const ScheduledWork* before, int num_cached) const {
    if (before == nullptr) return num_cached;
    const bool ran = previous->outcome == StepOutcome::kCompleted;
    return std::int64_t{before->num_computed_tokens} + (ran ? before->num_tokens : 0);
  }
};

struct WorkCode {
  std::uint8_t flags = 0;
  std::uint64_t skip = 0;
};

WorkCode code_of(const ScheduledWork& work, const WorkContext& context) {
  WorkCode code{static_cast<std::uint8_t>(work.kind), 0};
  const ScheduledWork* before = nullptr;
  for (std::size_t skip = 0; skip <= kMostSkipped && context.at(skip) != nullptr; ++skip) {
    if (context.at(skip)->request != work.request) continue;
    before = context.at(skip);
    code.skip = skip;
    code.flags |= kInPrevious | (skip > 0 ? kSkips : 0);
    break;
  }
  if (work.num_tokens == 1) code.flags |= kOneToken;
  if (work.num_cached_tokens == 0) code.flags |= kNotCached;
  if (work.num_computed_tokens == context.computed(before, work.num_cached_tokens))
    code.flags |= kPredicted;
  return code;
}

template <typename Io, typename Work>
void transfer_work(Io& io, Work& work, WorkContext& context) {
  WorkCode code;
  if constexpr (!Io::kReading) code = code_of(work, context);
  io.byte(code.flags);
  const std::uint8_t flags = code.flags;
  if constexpr (Io::kReading) {
    work.kind = static_cast<WorkKind>(flags & kKindBits);
    if ((flags & kSkips) != 0) code.skip = io.varint();
  } else if ((flags & kSkips) != 0) {
    io.varint(code.skip);
  }
  const ScheduledWork* before = nullptr;
  if ((flags & kInPrevious) != 0) {
    before = context.at(static_cast<std::size_t>(code.skip));
    if constexpr (Io::kReading)
      if (before == nullptr) return io.fail();
    io.expected(work.request, to_wide(before->request));
    context.cursor += static_cast<std::size_t>(code.skip) + 1;
  } else {
    io.number(work.request, to_wide(context.last));
  }
  context.last = work.request;
  (flags & kOneToken) != 0 ? io.expected(work.num_tokens, 1) : io.number(work.num_tokens);
  (flags & kNotCached) != 0 ? io.expected(work.num_cached_tokens, 0)
                            : io.number(work.num_cached_tokens);
  const std::int64_t computed = context.computed(before, work.num_cached_tokens);
  (flags & kPredicted) != 0 ? io.expected(work.num_computed_tokens, computed)
                            : io.number(work.num_computed_tokens, computed);
}

// Requests in a list mostly follow each other.
template <typename Io, typename Request>
void transfer_request(Io& io, Request& request, RequestId& last) {
  io.number(request, to_wide(last));
  last = request;
}

template <typename Io, typename Record>
void transfer_decisions(Io& io, Record& record) {
  RequestId last = kNoRequest;
  io.list(record.admitted, [&](auto& request) { transfer_request(io, request, last); });
  io.list(record.preempted, [&](auto& preemption) {
    transfer_request(io, preemption.victim, last);
    io.number(preemption.for_request, to_wide(last));
    io.choice(preemption.reason, static_cast<int>(PreemptReason::kPriority));
    io.number(preemption.blocks_released);
    io.number(preemption.tokens_lost);
    io.number(preemption.blocks_swapped);
  });
  io.list(record.finished, [&](auto& finish) {
    transfer_request(io, finish.request, last);
    io.choice(finish.reason, static_cast<int>(FinishReason::kError));
    io.number(finish.num_output_tokens);
  });
  io.list(record.waits, [&](auto& wait) {
    transfer_request(io, wait.request, last);
    io.choice(wait.reason, static_cast<int>(WaitReason::kPartialPrefills));
    io.number(wait.shortfall);
  });
  io.list(record.near_misses, [&](auto& miss) {
    transfer_request(io, miss.request, last);
    io.number(miss.position);
    io.number(miss.wanted);
    io.number(miss.cached);
  });
}

// Whether each scheduled request sampled one token, in order: then the requests need not be said.
bool one_token_each(const StepRecord& record) {
  return std::ranges::equal(record.sampled, record.scheduled, {}, &SampledToken::request,
                            &ScheduledWork::request);
}

template <typename Io, typename Record>
void transfer_tokens(Io& io, Record& record) {
  const bool plain = io.flag(Io::kReading ? false : one_token_each(record));
  std::size_t place = 0;
  RequestId last = kNoRequest;
  io.list(record.sampled, [&](auto& sampled) {
    if constexpr (Io::kReading)
      if (plain && place >= record.scheduled.size()) return io.fail();
    plain ? io.expected(sampled.request, to_wide(record.scheduled[place++].request))
          : transfer_request(io, sampled.request, last);
    io.number(sampled.token);
  });
  io.list(record.verified, [&](auto& verified) {
    transfer_request(io, verified.request, last);
    io.number(verified.num_drafts);
    io.number(verified.num_accepted);
  });
  io.list(record.drafted, [&](auto& drafted) {
    transfer_request(io, drafted.request, last);
    io.list(drafted.tokens, [&](auto& token) { io.number(token); });
  });
}

template <typename Io, typename Record>
void transfer_blocks(Io& io, Record& record) {
  constexpr std::uint8_t kSameRequest = 1 << 3;
  BlockId block = kNoBlock;
  RequestId request = kNoRequest;
  io.list(record.blocks, [&](auto& event) {
    std::uint8_t code = 0;
    if constexpr (!Io::kReading)
      code = static_cast<std::uint8_t>(event.kind) | (event.request == request ? kSameRequest : 0);
    io.byte(code);
    if constexpr (Io::kReading) {
      if ((code & ~kSameRequest) > static_cast<int>(BlockEventKind::kRelease)) return io.fail();
      event.kind = static_cast<BlockEventKind>(code & ~kSameRequest);
    }
    (code & kSameRequest) != 0 ? io.expected(event.request, to_wide(request))
                               : io.number(event.request, to_wide(request));
    io.number(event.block, to_wide(block));
    block = event.block;
    request = event.request;
  });
  io.list(record.moves, [&](auto& move) {
    io.choice(move.kind, static_cast<int>(MoveKind::kSwapIn));
    io.number(move.source);
    io.number(move.target);
    io.number(move.num_tokens);
    io.number(move.request, to_wide(request));
  });
}

template <typename Io, typename Inputs>
void transfer_inputs(Io& io, Inputs& inputs, const DecisionInputs& before) {
  bool same = false;
  if constexpr (!Io::kReading) same = inputs == before;
  if (io.flag(same)) {
    if constexpr (Io::kReading) inputs = before;
    return;
  }
  for (int i = 0; i < StepTimeModel::kTerms; ++i)
    io.real(inputs.step_time.ms[i], before.step_time.ms[i]);
  const bool fitted = io.flag(inputs.step_time.fitted);
  if constexpr (Io::kReading) inputs.step_time.fitted = fitted;
  io.real(inputs.step_time_margin, before.step_time_margin);
  io.real(inputs.decode_debt_ms, before.decode_debt_ms);
  io.number(inputs.steps_without_prefill);
  io.real(inputs.swap_us_per_block, before.swap_us_per_block);
  io.real(inputs.recompute_us_per_token, before.recompute_us_per_token);
}

template <typename Io, typename Counters>
void transfer_totals(Io& io, Counters& totals, const EngineCounters& before) {
  constexpr std::int64_t EngineCounters::*kFields[] = {
      &EngineCounters::steps,
      &EngineCounters::prefix_cache_queries,
      &EngineCounters::prefix_cache_hits,
      &EngineCounters::preemptions,
      &EngineCounters::prompt_tokens,
      &EngineCounters::generation_tokens,
      &EngineCounters::evictions,
      &EngineCounters::recomputed_tokens,
      &EngineCounters::swap_preemptions,
      &EngineCounters::displacements,
      &EngineCounters::blocks_swapped_out,
      &EngineCounters::blocks_swapped_in,
      &EngineCounters::partial_copies,
      &EngineCounters::draft_tokens,
      &EngineCounters::accepted_draft_tokens,
      &EngineCounters::requests_finished,
      &EngineCounters::requests_aborted,
  };
  static_assert(sizeof(EngineCounters) == sizeof kFields / sizeof *kFields * sizeof(std::int64_t));
  std::uint64_t changed = 0;
  if constexpr (!Io::kReading) {
    for (std::size_t i = 0; i < std::size(kFields); ++i)
      if (totals.*kFields[i] != before.*kFields[i]) changed |= std::uint64_t{1} << i;
    io.varint(changed);
  } else {
    changed = io.varint();
  }
  for (std::size_t i = 0; i < std::size(kFields); ++i) {
    const bool differs = (changed >> i & 1) != 0;
    differs ? io.number(totals.*kFields[i], before.*kFields[i])
            : io.expected(totals.*kFields[i], before.*kFields[i]);
  }
}

template <typename Io, typename Record>
void transfer_figures(Io& io, Record& record, const StepRecord& before) {
  io.number(record.tokens.cached);
  io.number(record.tokens.computed);
  io.number(record.tokens.recomputed);
  io.number(record.tokens.evicted);
  io.number(record.shape.prefill_tokens);
  io.number(record.shape.decode_tokens);
  io.number(record.shape.num_samples);
  io.number(record.shape.prefill_pairs);
  io.number(record.shape.decode_context, before.shape.decode_context);
  const bool contended = io.flag(record.contended);
  if constexpr (Io::kReading) record.contended = contended;
  io.number(record.token_budget, before.token_budget);
  io.number(record.chunk_limit, before.chunk_limit);
  io.number(record.prefill_limit, before.prefill_limit);
  io.number(record.num_running, before.num_running);
  io.number(record.num_waiting, before.num_waiting);
  io.number(record.num_free_blocks, before.num_free_blocks);
  io.number(record.num_blocks, before.num_blocks);
  io.number(record.num_cached_blocks, before.num_cached_blocks);
  transfer_totals(io, record.totals, before.totals);
}

template <typename Io, typename Times>
void transfer_times(Io& io, Times& times) {
  io.real(times.start_s);
  io.real(times.schedule_us);
  io.real(times.prepare_us);
  io.real(times.forward_us);
  io.real(times.sample_us);
  io.real(times.update_us);
  io.real(times.move_us);
}

template <typename Io, typename Record>
void transfer_step(Io& io, Record& record, const StepRecord& before) {
  io.number(record.step, to_wide(before.step) + 1);
  io.choice(record.outcome, static_cast<int>(StepOutcome::kFailed));
  transfer_times(io, record.times);
  WorkContext context{&before};
  io.list(record.scheduled, [&](auto& work) { transfer_work(io, work, context); });
  transfer_decisions(io, record);
  transfer_tokens(io, record);
  transfer_blocks(io, record);
  transfer_inputs(io, record.inputs, before.inputs);
  transfer_figures(io, record, before);
}

StepRecord start_of(const EngineSnapshot& keyframe) {
  StepRecord start;
  start.step = keyframe.step;
  start.totals = keyframe.totals;
  return start;
}

}  // namespace

void StepEncoder::restart(const EngineSnapshot& keyframe) {
  previous_ = std::make_shared<const StepRecord>(start_of(keyframe));
}

void StepEncoder::encode(const std::shared_ptr<const StepRecord>& record, std::string& target) {
  WireWriter writer(target);
  transfer_step(writer, *record, *previous_);
  previous_ = record;
}

void StepDecoder::restart(const EngineSnapshot& keyframe) {
  previous_ = start_of(keyframe);
}

bool StepDecoder::decode(std::string_view payload, StepRecord& record) {
  WireReader reader(payload);
  record = {};
  transfer_step(reader, record, previous_);
  if (!reader.ok() || !reader.at_end() || record.step != previous_.step + 1) return false;
  previous_ = record;
  return true;
}

}  // namespace quire
