#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "app/quire/commands.h"
#include "app/quire/model_flags.h"
#include "engine/memory.h"
#include "engine/paths.h"

namespace quire {
namespace {

void print_table(const std::vector<LibraryEntry>& entries) {
  std::size_t width = 4;
  for (const LibraryEntry& entry : entries) width = std::max(width, entry.name.size());
  fmt::print("{:<{}}  {:<6} {:>10}  {}\n", "name", width, "type", "size", "path");
  for (const LibraryEntry& entry : entries) {
    fmt::print("{:<{}}  {:<6} {:>10}  {}{}\n", entry.name, width, entry.type,
               readable_bytes(static_cast<double>(entry.bytes)), entry.path,
               entry.note.empty() ? "" : "  (" + entry.note + ")");
  }
}

int models(const std::vector<std::string>& folders, bool json) {
  std::string warning;
  Settings settings = Settings::load_file(warning);
  settings.model_folders.insert(settings.model_folders.end(), folders.begin(), folders.end());
  const auto entries = list_models(settings.model_folders);
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const LibraryEntry& entry : entries) {
      list.push_back({{"name", entry.name},
                      {"path", entry.path},
                      {"bytes", entry.bytes},
                      {"type", entry.type},
                      {"note", entry.note}});
    }
    fmt::print("{}\n", list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (entries.empty()) {
    fmt::print("No models yet. Put GGUF files or Hugging Face folders in {}.\n", models_dir());
  } else {
    print_table(entries);
  }
  return kExitOk;
}

}  // namespace

void add_models(CLI::App& app, int& exit_code) {
  struct Flags {
    std::vector<std::string> folders;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("models", "List the models in the library");
  command->add_option("--models-folder", flags->folders, "Also look here (repeatable)");
  command->add_flag("--json", flags->json, "One JSON array");
  command->callback([flags, &exit_code] { exit_code = models(flags->folders, flags->json); });
}

}  // namespace quire
