#include "app/quire/model_flags.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace quire {

ModelFlags::ModelFlags() : settings(Settings::load_file(settings_warning)) {
  model = settings.model;
  load = settings.load;
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
  command.add_option("--threads", load.num_threads, "Threads; 0 = one per physical core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
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
  command.add_option("--models-folder", settings.model_folders,
                     "Also look for models here (repeatable)");
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
  auto loaded = host.load_and_wait(resolved->path, resolved->id, flags.load, progress);
  if (show) fmt::print(stderr, "\r\033[K");
  if (!loaded.ok()) {
    print_error(loaded.error().message);
    return nullptr;
  }
  if (!(*loaded)->template_note.empty()) print_error((*loaded)->template_note);
  return *loaded;
}

}  // namespace quire
