#include "engine/load_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/memory.h"

namespace quire {
namespace {

std::uint64_t share_of_free_memory() {
  return static_cast<std::uint64_t>(kDefaultKvShareOfFreeMemory *
                                    static_cast<double>(free_memory_bytes()));
}

int whole_blocks(std::uint64_t bytes, std::size_t bytes_per_block) {
  return static_cast<int>(std::min<std::uint64_t>(bytes / bytes_per_block, 1u << 28));
}

// Blocks of the KV pool after the options, or what this machine affords.
Result<int> choose_num_blocks(const LoadOptions& options, std::size_t bytes_per_block,
                              int context) {
  if (options.num_blocks > 0) return options.num_blocks;
  std::uint64_t bytes = options.kv_cache_bytes;
  const std::uint64_t blocks_for_context =
      (static_cast<std::uint64_t>(context) + options.block_size - 1) / options.block_size;
  if (bytes == 0)
    bytes =
        std::min<std::uint64_t>(share_of_free_memory(), 8 * blocks_for_context * bytes_per_block);
  const int blocks = whole_blocks(bytes, bytes_per_block);
  if (blocks == 0) {
    return make_error(ErrorCode::kOutOfMemory,
                      "The KV cache of " + readable_bytes(static_cast<double>(bytes)) +
                          " cannot hold one block of " +
                          readable_bytes(static_cast<double>(bytes_per_block)) + ".");
  }
  return blocks;
}

int choose_swap_blocks(const LoadOptions& options, std::size_t bytes_per_block, int num_blocks) {
  if (options.num_swap_blocks > 0) return options.num_swap_blocks;
  if (options.swap_bytes > 0) return whole_blocks(options.swap_bytes, bytes_per_block);
  if (options.preemption_mode == PreemptionMode::kRecompute) return 0;
  return std::min(num_blocks, whole_blocks(share_of_free_memory(), bytes_per_block));
}

std::optional<int> read_chunk(const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0 || value > kMaxPrefillChunk)
    return std::nullopt;
  return value;
}

std::string field(const EngineConfig& config, std::string_view name) {
  for (const ConfigField& each : config_fields(config))
    if (each.name == name) return each.value;
  return {};
}

std::string chunk_text(int chunk) {
  return chunk == 0 ? "the whole prompt" : std::to_string(chunk) + " tokens";
}

}  // namespace

void apply_scheduling(const LoadOptions& options, EngineConfig& config) {
  config.max_num_seqs = options.max_num_seqs;
  config.max_num_batched_tokens = options.max_num_batched_tokens;
  config.max_queue = options.max_queue;
  config.enable_prefix_caching = options.enable_prefix_caching;
  config.enable_chunked_prefill = options.enable_chunked_prefill;
  config.long_prefill_token_threshold = options.long_prefill_token_threshold;
  config.max_num_partial_prefills = options.max_num_partial_prefills;
  config.prefill_chunk = options.prefill_chunk.value_or(PrefillChunkPolicy{});
  config.max_itl_ms = options.max_itl_ms;
  config.policy = options.policy;
  config.victim = options.victim;
  config.preemption_mode = options.preemption_mode;
  config.prefix_index = options.prefix_index;
  config.lpm_max_overtakes = options.lpm_max_overtakes;
}

void keep_scheduling(const EngineConfig& config, LoadOptions& options) {
  options.max_num_seqs = config.max_num_seqs;
  options.max_num_batched_tokens = config.max_num_batched_tokens;
  options.max_queue = config.max_queue;
  options.enable_prefix_caching = config.enable_prefix_caching;
  options.enable_chunked_prefill = config.enable_chunked_prefill;
  options.long_prefill_token_threshold = config.long_prefill_token_threshold;
  options.max_num_partial_prefills = config.max_num_partial_prefills;
  // The default pair stays a default, so that it never raises a budget.
  if (options.prefill_chunk || config.prefill_chunk != PrefillChunkPolicy{})
    options.prefill_chunk = config.prefill_chunk;
  options.max_itl_ms = config.max_itl_ms;
  options.policy = config.policy;
  options.victim = config.victim;
  options.preemption_mode = config.preemption_mode;
  options.prefix_index = config.prefix_index;
  options.lpm_max_overtakes = config.lpm_max_overtakes;
}

Result<LoadConfig> make_load_config(const LoadOptions& options, int model_context,
                                    std::size_t bytes_per_block) {
  LoadConfig result;
  EngineConfig& config = result.engine;
  apply_scheduling(options, config);
  config.block_size = options.block_size;
  config.max_model_len = model_context;
  if (options.max_model_len > 0)
    config.max_model_len = std::min(config.max_model_len, options.max_model_len);
  QUIRE_TRY(config.num_blocks, choose_num_blocks(options, bytes_per_block, config.max_model_len));
  config.num_swap_blocks = choose_swap_blocks(options, bytes_per_block, config.num_blocks);
  if (config.preemption_mode != PreemptionMode::kRecompute && config.num_swap_blocks == 0)
    result.notes.push_back(
        "There is no memory to swap to, so preempted requests will be computed again.");
  QUIRE_RETURN_IF_ERROR(validate(config));
  if (options.prefill_chunk) {
    std::string note = make_room_for_chunk(config);
    if (!note.empty()) result.notes.push_back(std::move(note));
  }
  return result;
}

std::string make_room_for_chunk(EngineConfig& config) {
  const auto [alone, contended] = config.prefill_chunk;
  const bool whole = alone == 0 || contended == 0;
  const int needed = std::max({alone, contended, whole ? config.effective_context() : 0});
  const int before = config.max_num_batched_tokens;
  if (needed <= before) return {};
  config.max_num_batched_tokens = needed;
  return fmt::format(
      "The token budget of a step was raised from {} to {} to hold a prefill chunk "
      "of {}.",
      before, needed, whole ? "the whole prompt" : chunk_text(std::max(alone, contended)));
}

ChunkChoice choose_prefill_chunk(const ChunkSources& sources) {
  ChunkChoice choice;
  if (sources.flag && sources.alias && *sources.flag != *sources.alias)
    choice.warnings.push_back(fmt::format(
        "--prefill-chunk-size {} and --batch-size {} differ; --prefill-chunk-size wins.",
        *sources.flag, *sources.alias));
  choice.chunk = sources.flag ? sources.flag : sources.alias;
  const std::pair<const char*, const std::optional<std::string>&> variables[] = {
      {"LLAMA_ARG_BATCH", sources.llama_arg_batch},
      {"QUIRE_PREFILL_CHUNK", sources.quire_prefill_chunk}};
  for (const auto& [name, text] : variables) {
    if (choice.chunk || !text) continue;
    choice.chunk = read_chunk(*text);
    if (!choice.chunk)
      choice.warnings.push_back(
          fmt::format("{} is not a number of tokens from 0 to {}, so it counts as not set.", name,
                      kMaxPrefillChunk));
  }
  return choice;
}

std::string describe_scheduling(const EngineConfig& config) {
  const auto [alone, contended] = config.prefill_chunk;
  std::string text = fmt::format("prefill chunk {} alone, {} while another sequence decodes",
                                 chunk_text(alone), chunk_text(contended));
  if (config.max_itl_ms > 0) text += fmt::format(", pauses up to {} ms", config.max_itl_ms);
  text += fmt::format("; policy {}, preemption by {}", field(config, "policy"),
                      field(config, "preemption_mode"));
  if (config.num_swap_blocks > 0)
    text += fmt::format(" ({} blocks to swap to)", config.num_swap_blocks);
  text += ", prefix index " +
          (config.enable_prefix_caching ? field(config, "prefix_index") : std::string("off"));
  return text;
}

}  // namespace quire
