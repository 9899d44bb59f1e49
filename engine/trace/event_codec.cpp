#include "engine/trace/event_codec.h"

#include "engine/trace/wire.h"

namespace quire {
namespace {

// Writes or reads a number that may be absent.
template <typename Io, typename Optional>
void transfer_optional(Io& io, Optional& value) {
  const bool present = io.flag(value.has_value());
  if constexpr (Io::kReading) {
    value.reset();
    if (present) value.emplace();
  }
  if (present) io.number(*value);
}

template <typename Io, typename Params>
void transfer_params(Io& io, Params& params) {
  io.number(params.max_tokens);
  io.number(params.min_tokens);
  io.real(params.temperature);
  io.number(params.top_k);
  io.real(params.top_p);
  io.real(params.min_p);
  io.real(params.repetition_penalty);
  io.real(params.presence_penalty);
  io.real(params.frequency_penalty);
  transfer_optional(io, params.seed);
  const bool ignore_eos = io.flag(params.ignore_eos);
  if constexpr (Io::kReading) params.ignore_eos = ignore_eos;
  io.list(params.stop_token_ids, [&](auto& id) { io.number(id); });
  io.list(params.stop, [&](auto& text) { io.text(text); });
  transfer_optional(io, params.logprobs);
}

template <typename Io, typename Record>
void transfer_arrival(Io& io, Record& record) {
  io.number(record.request);
  io.text(record.label);
  io.real(record.time_s);
  io.list(record.prompt_token_ids, [&](auto& id) { io.number(id); });
  transfer_params(io, record.params);
  io.text(record.cache_key);
  io.text(record.cache_salt);
  io.list(record.eos_token_ids, [&](auto& id) { io.number(id); });
  io.number(record.priority);
}

template <typename Io, typename View>
void transfer_block(Io& io, View& block, RequestId& owner) {
  constexpr std::uint8_t kHashed = 1, kOnce = 2, kShared = 4, kOwned = 8;
  std::uint8_t code = 0;
  if constexpr (!Io::kReading) {
    if (block.hashed) code |= kHashed;
    if (block.ref_count != 0) code |= block.ref_count == 1 ? kOnce : kShared;
    if (block.owner != kNoRequest) code |= kOwned;
  }
  io.byte(code);
  if constexpr (Io::kReading) block.hashed = (code & kHashed) != 0;
  (code & kShared) != 0 ? io.number(block.ref_count)
                        : io.expected(block.ref_count, (code & kOnce) != 0 ? 1 : 0);
  if ((code & kOwned) == 0) return io.expected(block.owner, to_wide(kNoRequest));
  io.number(block.owner, to_wide(owner));
  owner = block.owner;
}

template <typename Io, typename View>
void transfer_request(Io& io, View& request) {
  io.number(request.id);
  io.text(request.label);
  io.choice(request.status, static_cast<int>(RequestStatus::kFinished));
  io.number(request.num_prompt_tokens);
  io.number(request.num_tokens);
  io.number(request.num_computed_tokens);
  io.number(request.num_cached_tokens);
  io.number(request.num_preemptions);
  io.real(request.arrival_time_s);
  io.real(request.first_token_time_s);
  io.number(request.wait.request);
  io.choice(request.wait.reason, static_cast<int>(WaitReason::kPartialPrefills));
  io.number(request.wait.shortfall);
  BlockId last = kNoBlock;
  io.list(request.block_table, [&](auto& block) {
    io.number(block, to_wide(last));
    last = block;
  });
}

template <typename Io, typename Counters>
void transfer_totals(Io& io, Counters& totals) {
  for (auto* field : {&totals.steps, &totals.prefix_cache_queries, &totals.prefix_cache_hits,
                      &totals.preemptions, &totals.prompt_tokens, &totals.generation_tokens,
                      &totals.evictions, &totals.recomputed_tokens, &totals.swap_preemptions,
                      &totals.displacements, &totals.blocks_swapped_out, &totals.blocks_swapped_in,
                      &totals.partial_copies, &totals.draft_tokens, &totals.accepted_draft_tokens,
                      &totals.requests_finished, &totals.requests_aborted})
    io.number(*field);
}

template <typename Io, typename Snapshot>
void transfer_snapshot(Io& io, Snapshot& snapshot) {
  io.number(snapshot.step);
  io.number(snapshot.block_size);
  RequestId owner = kNoRequest;
  io.list(snapshot.blocks, [&](auto& block) { transfer_block(io, block, owner); });
  io.list(snapshot.requests, [&](auto& request) { transfer_request(io, request); });
  transfer_totals(io, snapshot.totals);
}

template <typename Record, typename Transfer>
bool decode_with(std::string_view payload, Record& record, Transfer transfer) {
  WireReader reader(payload);
  record = {};
  transfer(reader, record);
  return reader.ok() && reader.at_end();
}

}  // namespace

void encode(const ArrivalRecord& record, std::string& target) {
  WireWriter writer(target);
  transfer_arrival(writer, record);
}

void encode(const AbortRecord& record, std::string& target) {
  WireWriter writer(target);
  writer.number(record.request);
  writer.real(record.time_s);
}

void encode(const ReconfigureRecord& record, std::string& target) {
  WireWriter writer(target);
  writer.real(record.time_s);
  writer.list(config_fields(record.config), [&](const ConfigField& field) {
    writer.text(field.name);
    writer.text(field.value);
  });
}

void encode(const CacheResetRecord& record, std::string& target) {
  WireWriter(target).real(record.time_s);
}

void encode(const EngineSnapshot& snapshot, std::string& target) {
  WireWriter writer(target);
  transfer_snapshot(writer, snapshot);
}

bool decode(std::string_view payload, ArrivalRecord& record) {
  return decode_with(payload, record, [](auto& io, auto& to) { transfer_arrival(io, to); });
}

bool decode(std::string_view payload, AbortRecord& record) {
  return decode_with(payload, record, [](auto& io, auto& to) {
    io.number(to.request);
    io.real(to.time_s);
  });
}

bool decode(std::string_view payload, ReconfigureRecord& record) {
  return decode_with(payload, record, [](auto& io, auto& to) {
    io.real(to.time_s);
    for (std::uint64_t left = io.varint(); io.ok() && left > 0; --left) {
      std::string name, value;
      io.text(name);
      io.text(value);
      if (!io.ok() || !set_config_field(to.config, name, value).ok()) io.fail();
    }
    if (!validate(to.config).ok()) io.fail();
  });
}

bool decode(std::string_view payload, CacheResetRecord& record) {
  return decode_with(payload, record, [](auto& io, auto& to) { io.real(to.time_s); });
}

bool decode(std::string_view payload, EngineSnapshot& snapshot) {
  return decode_with(payload, snapshot, [](auto& io, auto& to) { transfer_snapshot(io, to); });
}

}  // namespace quire
