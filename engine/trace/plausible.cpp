#include "engine/trace/plausible.h"

#include <algorithm>

namespace quire {
namespace {

bool some(RequestId request) {
  return index(request) >= 0;
}

bool counts(std::initializer_list<std::int64_t> values) {
  return std::ranges::all_of(values, [](std::int64_t value) { return value >= 0; });
}

bool known(TokenId token, const TraceHeader& header) {
  return token >= 0 && token < header.vocab_size;
}

bool known(const std::vector<TokenId>& tokens, const TraceHeader& header) {
  return std::ranges::all_of(tokens, [&](TokenId token) { return known(token, header); });
}

bool in_pool(std::int32_t block, int num_blocks) {
  return block >= 0 && block < num_blocks;
}

bool plausible_moves(const StepRecord& record, const EngineConfig& config) {
  return std::ranges::all_of(record.moves, [&](const BlockMove& move) {
    const int sources = move.kind == MoveKind::kSwapIn ? config.num_swap_blocks : config.num_blocks;
    const int targets =
        move.kind == MoveKind::kSwapOut ? config.num_swap_blocks : config.num_blocks;
    return in_pool(move.source, sources) && in_pool(move.target, targets) && some(move.request) &&
           counts({move.num_tokens});
  });
}

bool plausible_tokens(const StepRecord& record, const TraceHeader& header) {
  return std::ranges::all_of(record.sampled,
                             [&](const SampledToken& sampled) {
                               return some(sampled.request) && known(sampled.token, header);
                             }) &&
         std::ranges::all_of(record.verified,
                             [](const DraftVerification& verified) {
                               return some(verified.request) && verified.num_accepted >= 0 &&
                                      verified.num_accepted <= verified.num_drafts;
                             }) &&
         std::ranges::all_of(record.drafted, [&](const DraftProposal& drafted) {
           return some(drafted.request) && known(drafted.tokens, header);
         });
}

bool plausible_decisions(const StepRecord& record) {
  return std::ranges::all_of(record.scheduled,
                             [](const ScheduledWork& work) {
                               return some(work.request) && work.num_tokens > 0 &&
                                      counts({work.num_computed_tokens, work.num_cached_tokens});
                             }) &&
         std::ranges::all_of(record.admitted, some) &&
         std::ranges::all_of(record.preempted,
                             [](const Preemption& preemption) {
                               return some(preemption.victim) && some(preemption.for_request) &&
                                      counts({preemption.blocks_released, preemption.tokens_lost,
                                              preemption.blocks_swapped});
                             }) &&
         std::ranges::all_of(record.finished,
                             [](const FinishRecord& finish) {
                               return some(finish.request) && counts({finish.num_output_tokens});
                             }) &&
         std::ranges::all_of(record.waits, [](const WaitState& wait) {
           return some(wait.request) && counts({wait.shortfall});
         });
}

bool plausible_inputs(const DecisionInputs& inputs) {
  return inputs.step_time_margin >= 1 && inputs.steps_without_prefill >= 0 &&
         inputs.decode_debt_ms >= 0 && inputs.swap_us_per_block >= 0 &&
         inputs.recompute_us_per_token >= 0 &&
         std::ranges::all_of(inputs.step_time.ms, [](double ms) { return ms >= 0; });
}

bool plausible_times(const StepTimes& times) {
  return std::ranges::all_of(
      std::initializer_list<float>{times.schedule_us, times.prepare_us, times.forward_us,
                                   times.sample_us, times.update_us, times.move_us},
      [](float us) { return us >= 0; });
}

}  // namespace

bool plausible(const ArrivalRecord& record, const TraceHeader& header) {
  return some(record.request) && known(record.prompt_token_ids, header) &&
         known(record.eos_token_ids, header);
}

bool plausible(const AbortRecord& record, const TraceHeader&) {
  return some(record.request);
}

// What is fixed while a model is loaded must stay as the header has it.
bool plausible(const ReconfigureRecord& record, const TraceHeader& header) {
  const auto was = config_fields(header.config), is = config_fields(record.config);
  for (std::size_t i = 0; i < is.size(); ++i)
    if (!is[i].live && is[i].value != was[i].value) return false;
  return true;
}

bool plausible(const CacheResetRecord&, const TraceHeader&) {
  return true;
}

bool plausible(const StepRecord& record, const TraceHeader& header) {
  const int num_blocks = header.config.num_blocks;
  const StepShape& shape = record.shape;
  return plausible_times(record.times) && plausible_decisions(record) &&
         plausible_tokens(record, header) && plausible_moves(record, header.config) &&
         plausible_inputs(record.inputs) &&
         std::ranges::all_of(
             record.blocks,
             [&](const BlockEvent& event) { return in_pool(index(event.block), num_blocks); }) &&
         counts({record.tokens.cached, record.tokens.computed, record.tokens.recomputed,
                 record.tokens.evicted, shape.prefill_tokens, shape.decode_tokens,
                 shape.num_samples, shape.prefill_pairs, shape.decode_context, record.num_running,
                 record.num_waiting, record.num_free_blocks, record.num_cached_blocks});
}

bool plausible(const EngineSnapshot& snapshot, const TraceHeader& header) {
  if (snapshot.block_size != header.config.block_size ||
      snapshot.blocks.size() != static_cast<std::size_t>(header.config.num_blocks))
    return false;
  return std::ranges::all_of(snapshot.requests, [&](const RequestView& request) {
    return some(request.id) &&
           counts({request.num_prompt_tokens, request.num_tokens, request.num_computed_tokens,
                   request.num_cached_tokens, request.num_preemptions}) &&
           std::ranges::all_of(request.block_table, [&](BlockId block) {
             return in_pool(index(block), header.config.num_blocks);
           });
  });
}

}  // namespace quire
