#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

namespace quire {

// Exit codes of every subcommand; --help lists them.
enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,       // the command ran and failed
  kExitUsage = 2,         // wrong options or values
  kExitModel = 3,         // the model could not be found or loaded
  kExitAddress = 4,       // the address is taken or may not be bound
  kExitMismatch = 5,      // bench core: outputs differ; trace replay: a step differs
  kExitInterrupted = 130  // a second SIGINT or SIGTERM
};

// Each adds its subcommand; the callback it sets runs the command and stores the exit code.
void add_serve(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_trace_whatif(CLI::App& trace, int& exit_code);  // of `quire trace`
void add_inspect(CLI::App& app, int& exit_code);
void add_models(CLI::App& app, int& exit_code);
void add_trace(CLI::App& app, int& exit_code);

}  // namespace quire
