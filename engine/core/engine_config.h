#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/ids.h"
#include "engine/result.h"
#include "engine/sampling/params.h"

namespace quire {

// In which order the waiting queue is admitted. Under each of them requests that were preempted
// come before requests of the same rank that never ran, and only the head is ever tried: what is
// behind a request that does not fit waits with it.
enum class SchedulingPolicy : std::uint8_t {
  kFcfs,      // by arrival
  kPriority,  // lower `priority` first, then arrival; may displace a running request of lower rank
  kLpm,       // longest cached prefix first, then arrival, within the aging bound
};

// Which of several requests of equal priority gives its blocks up.
enum class VictimChoice : std::uint8_t {
  kLast,      // the one admitted last
  kCheapest,  // the least computed work lost per block gained
};

// What becomes of a victim's keys and values.
enum class PreemptionMode : std::uint8_t {
  kRecompute,  // forgotten, computed again on return
  kSwap,       // copied to host memory and back; recomputed when the host pool is full
  kAuto,       // whichever the measured copy time and prefill rate make cheaper
};

enum class PrefixIndexKind : std::uint8_t {
  kHash,   // chained block hashes, whole blocks
  kRadix,  // a tree of token blocks; also matches part of a block, by copying it
};

// How many prompt tokens one step takes, by who would wait for them (source:
// mlxcel issue "choose the prefill chunk by whether other sequences are decoding"). While any
// sequence is decoding, the step's prefill tokens together stay within `contended`; otherwise
// within `alone`. 0 = no limit but the step's budget.
struct PrefillChunkPolicy {
  int alone = 2048;
  int contended = 512;
  // An explicit chunk holds in both states.
  static PrefillChunkPolicy resolve(std::optional<int> explicit_chunk) {
    return explicit_chunk ? PrefillChunkPolicy{*explicit_chunk, *explicit_chunk}
                          : PrefillChunkPolicy{};
  }
  int chunk(bool others_decoding) const { return others_decoding ? contended : alone; }
  bool operator==(const PrefillChunkPolicy&) const = default;
};

struct EngineConfig {
  int num_blocks = 0;                 // KV pool, in blocks; > 0
  int block_size = 16;                // tokens per block
  int max_num_seqs = 64;              // requests running at once
  int max_num_batched_tokens = 2048;  // token budget of one step
  int max_model_len = 0;              // the model's context, in tokens; > 0
  int max_queue = 512;                // waiting requests before submit refuses
  bool enable_prefix_caching = true;
  bool enable_chunked_prefill = true;
  int long_prefill_token_threshold =
      0;  // most prefill tokens of one request in a step; 0 = no limit of its own
  int max_num_partial_prefills = 0;  // requests mid-prompt at once; 0 = no limit
  PrefillChunkPolicy prefill_chunk;
  // Longest pause wanted between two tokens of a running stream, in milliseconds; 0 = none: the
  // chunk policy alone decides. See chunk_control.h.
  double max_itl_ms = 0;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  VictimChoice victim = VictimChoice::kLast;
  PreemptionMode preemption_mode = PreemptionMode::kRecompute;
  int num_swap_blocks = 0;  // host pool, in blocks; 0 = swapping is never possible
  PrefixIndexKind prefix_index = PrefixIndexKind::kHash;
  // Admissions that may pass a waiting request under kLpm before it must be next.
  int lpm_max_overtakes = 32;
  // Times a request may be displaced by ones of higher priority; after that only want of blocks
  // preempts it.
  int max_displacements = 4;
  std::uint64_t seed = 0;  // seeds requests that bring none

  bool operator==(const EngineConfig&) const = default;
  // What a request can use: min(model context, tokens in the pool).
  int effective_context() const {
    const long long pool = static_cast<long long>(num_blocks) * block_size;
    return static_cast<int>(pool < max_model_len ? pool : max_model_len);
  }
};

// One sentence naming the first field out of range.
Status validate(const EngineConfig& config);

// A field as text. `live` ones change while a model is loaded; the others need a reload.
struct ConfigField {
  std::string_view name;
  std::string value;
  bool live = false;
};
// Every field, in the order above. Names are those of the members, with `prefill_chunk_alone` and
// `prefill_chunk_contended`; values are decimal numbers, true/false, or the enumerator in
// lower case (fcfs, priority, lpm; last, cheapest; recompute, swap, auto; hash, radix).
std::vector<ConfigField> config_fields(const EngineConfig& config);
// kInvalidArgument naming an unknown field or a value that cannot be read; ranges are `validate`'s.
Status set_config_field(EngineConfig& config, std::string_view name, std::string_view value);

// Refuses what can never run and clamps what may be: empty prompt, parameters out of range, a
// prompt that leaves no room for one token (kContextLengthExceeded, with both numbers), a prompt
// that never fits the budget when chunked prefill is off. Absent or larger max_tokens becomes what
// fits, and min_tokens at most that: the effective context and, without chunked prefill, the
// budget, since a preempted request must return in one step with all but its newest token. Any
// thread.
Status check_and_clamp(const EngineConfig& config, int vocab_size, std::size_t num_prompt_tokens,
                       SamplingParams& params);

// Refuses ids outside the vocabulary. Pure; callable from any thread.
Status check_token_ids(std::span<const TokenId> ids, int vocab_size);

}  // namespace quire
