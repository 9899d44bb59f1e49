#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/library.h"
#include "engine/load_config.h"
#include "engine/model_host.h"
#include "engine/settings.h"

namespace quire {

// The options every command that loads a model shares, starting from the settings file.
struct ModelFlags {
  ModelFlags();
  void add_to(CLI::App& command, bool with_model_option);

  Settings settings;
  std::string settings_warning;
  std::string model;
  LoadOptions load;
  ChunkSources chunk;  // the command line's; resolve_load_options adds the environment's

 private:
  void add_scheduling_to(CLI::App& command);
  void add_choice(CLI::App& command, const std::string& flag, const char* field,
                  const std::vector<std::string>& choices, const std::string& help);
};

// How many threads compute, where and how urgently.
void add_thread_flags(CLI::App& command, LoadOptions& load);
void add_kv_cache_dtype(CLI::App& command, LoadOptions& load);

// The options to load with: an explicit chunk replaces the settings' pair. Prints warnings.
LoadOptions resolve_load_options(const ModelFlags& flags);

// Resolves and loads the model, printing progress to a terminal's stderr. On failure prints the
// sentence and returns null.
std::shared_ptr<HostedModel> load_for_command(ModelHost& host, const ModelFlags& flags);

void print_error(const std::string& message);

}  // namespace quire
