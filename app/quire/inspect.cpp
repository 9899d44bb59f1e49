#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/quire/commands.h"
#include "app/quire/model_flags.h"
#include "engine/memory.h"
#include "engine/model/model.h"

namespace quire {
namespace {

void print_text(const ModelSummary& summary) {
  const ModelConfig& config = summary.config;
  fmt::print("{:<14} {}\n", "name", summary.name);
  fmt::print("{:<14} {}\n", "format", summary.format);
  fmt::print("{:<14} {}\n", "architecture", summary.architecture);
  fmt::print("{:<14} {:.1f} M\n", "parameters", static_cast<double>(summary.num_parameters) / 1e6);
  fmt::print("{:<14} {}\n", "weights", summary.dtype_name);
  fmt::print("{:<14} {}\n", "size", readable_bytes(static_cast<double>(summary.file_bytes)));
  fmt::print("{:<14} {} tokens\n", "context", config.context_length);
  fmt::print("{:<14} {} layers, hidden {}, ffn {}\n", "shape", config.num_layers,
             config.hidden_size, config.ffn_size);
  fmt::print("{:<14} {} heads, {} kv heads, head dim {}\n", "attention", config.num_heads,
             config.num_kv_heads, config.head_dim);
  fmt::print("{:<14} {}\n", "tokenizer", summary.tokenizer);
  fmt::print("{:<14} {}\n", "chat template",
             summary.chat_template_source.empty() ? "none" : "yes (--template shows it)");
}

nlohmann::ordered_json to_json(const ModelSummary& summary) {
  const ModelConfig& config = summary.config;
  return {{"name", summary.name},
          {"format", summary.format},
          {"architecture", summary.architecture},
          {"num_parameters", summary.num_parameters},
          {"dtype", summary.dtype_name},
          {"file_bytes", summary.file_bytes},
          {"context_length", config.context_length},
          {"vocab_size", config.vocab_size},
          {"num_layers", config.num_layers},
          {"hidden_size", config.hidden_size},
          {"ffn_size", config.ffn_size},
          {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"tokenizer", summary.tokenizer},
          {"chat_template", summary.chat_template_source}};
}

int inspect(const std::string& what, bool json, bool show_template) {
  std::string warning;
  const Settings settings = Settings::load_file(warning);
  auto resolved = resolve_model(what, settings.model_folders);
  if (!resolved.ok()) {
    print_error(resolved.error().message);
    return kExitModel;
  }
  auto summary = inspect_model(resolved->path);
  if (!summary.ok()) {
    print_error(summary.error().message);
    return kExitModel;
  }
  if (show_template) {
    fmt::print("{}\n", summary->chat_template_source);
  } else if (json) {
    fmt::print("{}\n",
               to_json(*summary).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    print_text(*summary);
  }
  return kExitOk;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Flags {
    std::string what;
    bool json = false, show_template = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("inspect", "Say what a model file or folder is, without loading it");
  command->add_option("model", flags->what, "File, folder, starter, builtin:tiny or a library name")
      ->required();
  command->add_flag("--json", flags->json, "One JSON object");
  command->add_flag("--template", flags->show_template, "Print the chat template only");
  command->callback(
      [flags, &exit_code] { exit_code = inspect(flags->what, flags->json, flags->show_template); });
}

}  // namespace quire
