#include "app/quire/model_flags.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace quire {

ModelFlags::ModelFlags() : settings(Settings::load_file(settings_warning)) {
  model = settings.model;
  load = settings.load;
}

void add_thread_flags(CLI::App& command, LoadOptions& load) {
  command
      .add_option("--threads", load.num_threads,
                  "Threads; 0 = one per physical core this process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--cpu-pin", load.cpu_pin,
                  "cores keeps each thread on a physical core of its own; none leaves them to the "
                  "system")
      ->check(CLI::IsMember({"none", "cores"}))
      ->capture_default_str();
  command
      .add_option("--cpu-priority", load.cpu_priority,
                  "Of the threads: low gives way to other programs; high needs the right to raise "
                  "it")
      ->check(CLI::IsMember({"low", "normal", "high"}))
      ->capture_default_str();
}

void add_kv_cache_dtype(CLI::App& command, LoadOptions& load) {
  command
      .add_option("--kv-cache-dtype", load.kv_cache_dtype,
                  "How keys and values are kept: bf16 and f16 take half the memory of f32, int8 "
                  "about half of\nthat, with 8-bit integers and a scale for every 32 of them")
      ->check(CLI::IsMember(kv_cache_dtypes()))
      ->capture_default_str();
}

void ModelFlags::add_to(CLI::App& command, bool with_model_option) {
  if (with_model_option) {
    command
        .add_option(
            "-m,--model", model,
            "starter, builtin:tiny, a GGUF file or Hugging Face folder, or a name in the library")
        ->capture_default_str();
  }
  command.add_option("--backend", load.backend, "cpu, or reference (plain float32 loops)")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str();
  add_thread_flags(command, load);
  add_kv_cache_dtype(command, load);
  command.add_option("--num-blocks", load.num_blocks, "KV blocks; beats --kv-cache-bytes")
      ->check(CLI::Range(0, 1 << 28));
  command
      .add_option("--kv-cache-bytes", load.kv_cache_bytes,
                  "Memory of the KV pool, with a suffix such as 512MB or 2GB; default: a quarter "
                  "of the memory\n"
                  "free at start, at most 8 x the context")
      ->transform(CLI::AsSizeValue(false));
  command.add_option("--block-size", load.block_size, "Tokens per KV block")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--max-num-seqs", load.max_num_seqs, "Requests running at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens", load.max_num_batched_tokens,
                  "Token budget of one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--max-model-len", load.max_model_len, "Context in tokens; 0 = the model's own")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  command.add_option("--max-queue", load.max_queue, "Waiting requests before new ones are refused")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command.add_flag("!--no-prefix-caching", load.enable_prefix_caching,
                   "Never reuse cached prefixes");
  add_scheduling_to(command);
  command.add_option("--models-folder", settings.model_folders,
                     "Also look for models here (repeatable)");
}

void ModelFlags::add_choice(CLI::App& command, const std::string& flag, const char* field,
                            const std::vector<std::string>& choices, const std::string& help) {
  EngineConfig now;
  apply_scheduling(load, now);
  std::string initial;
  for (const ConfigField& each : config_fields(now))
    if (each.name == field) initial = each.value;
  command
      .add_option_function<std::string>(
          flag,
          [this, field](const std::string& value) {
            EngineConfig config;
            apply_scheduling(load, config);
            if (set_config_field(config, field, value).ok()) keep_scheduling(config, load);
          },
          help)
      ->check(CLI::IsMember(choices))
      ->default_str(initial);
}

void ModelFlags::add_scheduling_to(CLI::App& command) {
  const std::string chunk_range = "0 to " + std::to_string(kMaxPrefillChunk);
  const PrefillChunkPolicy pair = load.prefill_chunk.value_or(PrefillChunkPolicy{});
  command
      .add_option("--prefill-chunk-size", chunk.flag,
                  "Most prompt tokens a step takes, whoever waits; 0 = the whole prompt in one "
                  "step\n"
                  "[default: " +
                      std::to_string(pair.alone) + " when no other sequence is decoding, " +
                      std::to_string(pair.contended) +
                      " when one is;\n"
                      "LLAMA_ARG_BATCH and then QUIRE_PREFILL_CHUNK override]")
      ->check(CLI::Range(0, kMaxPrefillChunk));
  command
      .add_option("--batch-size", chunk.alias, "The same as --prefill-chunk-size, which beats it")
      ->check(CLI::Range(0, kMaxPrefillChunk));
  command
      .add_option("--max-itl-ms", load.max_itl_ms,
                  "Longest pause wanted between two tokens of a running answer, in milliseconds;\n"
                  "prompts beside it are cut to what fits; 0 = no target")
      ->check(CLI::Range(0.0, 3600000.0))
      ->capture_default_str();
  command.add_flag("!--no-chunked-prefill", load.enable_chunked_prefill,
                   "Compute every prompt in one step; longer ones than the budget are refused");
  command
      .add_option("--long-prefill-token-threshold", load.long_prefill_token_threshold,
                  "Most prompt tokens of one request in a step; 0 = no limit of its own")
      ->check(CLI::Range(0, 1 << 28))
      ->capture_default_str();
  command
      .add_option("--max-num-partial-prefills", load.max_num_partial_prefills,
                  "Requests that may be in the middle of their prompt at once; 0 = no limit")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_choice(command, "--scheduling-policy", "policy", {"fcfs", "priority", "lpm"},
             "Who is admitted next: by arrival, lower 'priority' first, or the longest cached "
             "prefix");
  command
      .add_option("--lpm-max-overtakes", load.lpm_max_overtakes,
                  "Admissions that may pass a waiting request under lpm before it must be next")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_choice(command, "--victim", "victim", {"last", "cheapest"},
             "Who gives blocks up when the pool is full, among equals");
  add_choice(command, "--preemption-mode", "preemption_mode", {"recompute", "swap", "auto"},
             "What becomes of a victim's keys and values: computed again, kept in host memory, "
             "or\n"
             "whichever is measured to be cheaper");
  command
      .add_option("--num-swap-blocks", load.num_swap_blocks,
                  "Blocks of host memory to swap to; beats --swap-bytes")
      ->check(CLI::Range(0, 1 << 28));
  command
      .add_option("--swap-bytes", load.swap_bytes,
                  "Host memory to swap to, with a suffix; default: none under recompute, else as "
                  "large\n"
                  "as the KV pool, at most a quarter of the memory free at start")
      ->transform(CLI::AsSizeValue(false));
  add_choice(command, "--prefix-index", "prefix_index", {"hash", "radix"},
             "How cached prefixes are found: whole blocks by hash, or a tree that also copies a "
             "part\n"
             "of a block");
}

namespace {

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

LoadOptions resolve_load_options(const ModelFlags& flags) {
  ChunkSources sources = flags.chunk;
  sources.llama_arg_batch = environment("LLAMA_ARG_BATCH");
  sources.quire_prefill_chunk = environment("QUIRE_PREFILL_CHUNK");
  const ChunkChoice choice = choose_prefill_chunk(sources);
  for (const std::string& warning : choice.warnings) print_error(warning);
  LoadOptions load = flags.load;
  if (choice.chunk) load.prefill_chunk = PrefillChunkPolicy::resolve(choice.chunk);
  return load;
}

void print_error(const std::string& message) {
  fmt::print(stderr, "quire: {}\n", message);
}

std::shared_ptr<HostedModel> load_for_command(ModelHost& host, const ModelFlags& flags) {
  if (!flags.settings_warning.empty()) print_error(flags.settings_warning);
  auto resolved = resolve_model(flags.model, flags.settings.model_folders);
  if (!resolved.ok()) {
    print_error(resolved.error().message);
    return nullptr;
  }
  const LoadOptions load = resolve_load_options(flags);
  const bool show = isatty(STDERR_FILENO) != 0;
  const ProgressCallback progress = [show](const LoadProgress& now) {
    if (show && now.bytes_total > 0) {
      fmt::print(
          stderr, "\rloading {:3.0f} %",
          100.0 * static_cast<double>(now.bytes_done) / static_cast<double>(now.bytes_total));
      std::fflush(stderr);
    }
    return true;
  };
  auto loaded = host.load_and_wait(resolved->path, resolved->id, load, progress);
  if (show) fmt::print(stderr, "\r\033[K");
  if (!loaded.ok()) {
    print_error(loaded.error().message);
    return nullptr;
  }
  for (const std::string& note : (*loaded)->notes) print_error(note);
  if (!(*loaded)->template_note.empty()) print_error((*loaded)->template_note);
  return *loaded;
}

}  // namespace quire
