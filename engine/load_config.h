#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/model_host.h"

namespace quire {

// An engine's settings for a model, with sentences on what was changed to make them fit.
struct LoadConfig {
  EngineConfig engine;
  std::vector<std::string> notes;
};

// What `options` mean for a model of this context whose KV takes `bytes_per_block` a block: sizes
// the pools by the memory free now where the options leave that open, and raises the step's budget
// to hold a chunk that was asked for. Errors are sentences.
Result<LoadConfig> make_load_config(const LoadOptions& options, int model_context,
                                    std::size_t bytes_per_block);

// Copies the settings of scheduling, which do not depend on the model, one way and back.
void apply_scheduling(const LoadOptions& options, EngineConfig& config);
void keep_scheduling(const EngineConfig& config, LoadOptions& options);

// Raises max_num_batched_tokens to the larger chunk, or to the effective context when a chunk is 0
// (the whole prompt in one step). Returns a sentence saying so, or "" if there was room.
std::string make_room_for_chunk(EngineConfig& config);

// Where an explicit chunk may come from, strongest first. The environment's are still text.
struct ChunkSources {
  std::optional<int> flag;   // --prefill-chunk-size
  std::optional<int> alias;  // --batch-size
  std::optional<std::string> llama_arg_batch;
  std::optional<std::string> quire_prefill_chunk;
};

struct ChunkChoice {
  std::optional<int> chunk;  // for both states; empty when nobody asked for one
  std::vector<std::string> warnings;
};

// The strongest source that can be read. Warns of a flag and an alias that differ, and of text that
// is not a number from 0 to kMaxPrefillChunk, which counts as not set.
ChunkChoice choose_prefill_chunk(const ChunkSources& sources);
inline constexpr int kMaxPrefillChunk = 1 << 20;

// "prefill chunk 2048 tokens alone, 512 while another sequence decodes; policy fcfs, ...": the
// settings of scheduling on one line.
std::string describe_scheduling(const EngineConfig& config);

}  // namespace quire
