#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "app/quire/model_flags.h"
#include "engine/runner/cost_runner.h"
#include "engine/runner/serving_metrics.h"

namespace quire {

// A model without an engine around it, for benches that drive the pieces themselves.
struct BareModel {
  std::unique_ptr<Backend> backend;
  LoadedWeights weights;
  std::string device() const { return backend->name() + ": " + backend->description(); }
};
Result<std::unique_ptr<BareModel>> load_bare(const std::string& what, const ModelFlags& flags);

// The options of a bench that runs on a model.
struct BenchModelFlags {
  ModelFlags model;
  std::string what;
  bool json = false;
  void add_to(CLI::App& command);
};
// The exit code of `run` on the model that was asked for; prints what went wrong.
int with_model(const BenchModelFlags& flags, const std::function<Status(const BareModel&)>& run);

// The options of a bench that runs on costs instead of a model: built-in ones, stated in the help
// text, or a file that `quire bench calibrate --json` wrote.
struct CostFlags {
  std::string model_file;
  void add_to(CLI::App& command);
  Result<MachineCosts> costs() const;
};

// With so many decimals, as the nearest double, so that it prints as short.
double rounded(double value, int decimals);
void print_json(const nlohmann::ordered_json& json);
nlohmann::ordered_json report_json(const ServingReport& report);
nlohmann::ordered_json costs_json(const MachineCosts& costs);

// Each adds some of `quire bench`'s subcommands.
void add_model_bench(CLI::App& bench, int& exit_code);
void add_perplexity_bench(CLI::App& bench, int& exit_code);
void add_simulation_benches(CLI::App& bench, int& exit_code);
void add_serving_benches(CLI::App& bench, int& exit_code);
void add_overhead_bench(CLI::App& bench, int& exit_code);

}  // namespace quire
