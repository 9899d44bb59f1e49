#include "app/quire/bench_commands.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/quire/commands.h"

namespace quire {
namespace {

constexpr const char* kTermNames[StepTimeModel::kTerms] = {
    "base", "prefill_token", "decode_token", "sample", "prefill_pair", "decode_key"};

constexpr std::size_t kMaxCostsBytes = 1 << 20;

Error bad_costs(const std::string& path) {
  return make_error(ErrorCode::kInvalidArgument,
                    path + " is not what quire bench calibrate --json writes.");
}

}  // namespace

Result<std::unique_ptr<BareModel>> load_bare(const std::string& what, const ModelFlags& flags) {
  QUIRE_TRY(const ResolvedModel resolved, resolve_model(what, flags.settings.model_folders));
  auto model = std::make_unique<BareModel>();
  QUIRE_TRY(model->backend, make_backend(flags.load));
  for (const std::string& warning : model->backend->warnings()) print_error(warning);
  QUIRE_TRY(model->weights, load_model(resolved.path, *model->backend, {}));
  return model;
}

void BenchModelFlags::add_to(CLI::App& command) {
  command.add_option("model", what, "starter, builtin:tiny, a file, a folder or a library name")
      ->required();
  add_thread_flags(command, model.load);
  command.add_option("--backend", model.load.backend)
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str();
  add_kv_cache_dtype(command, model.load);
  command.add_flag("--json", json, "One JSON object per line");
}

int with_model(const BenchModelFlags& flags, const std::function<Status(const BareModel&)>& run) {
  const auto model = load_bare(flags.what, flags.model);
  if (!model.ok()) {
    print_error(model.error().message);
    return kExitModel;
  }
  const Status status = run(**model);
  if (status.ok()) return kExitOk;
  print_error(status.error().message);
  return kExitFailure;
}

void CostFlags::add_to(CLI::App& command) {
  const MachineCosts built_in = default_costs();
  std::string terms;
  for (int i = 0; i < StepTimeModel::kTerms; ++i)
    terms += fmt::format("{}{} {:g}", i == 0 ? "" : ", ", kTermNames[i], built_in.step_time.ms[i]);
  command
      .add_option("--model-file", model_file,
                  "What steps cost, as written by quire bench calibrate --json; without it, in "
                  "milliseconds: " +
                      terms)
      ->check(CLI::ExistingFile);
}

Result<MachineCosts> CostFlags::costs() const {
  if (model_file.empty()) return default_costs();
  std::ifstream file(model_file);
  std::string text(kMaxCostsBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("ms") || !json["ms"].is_object())
    return bad_costs(model_file);
  const auto number = [](const nlohmann::json& from, const char* name) {
    const auto it = from.find(name);
    const double value = it != from.end() && it->is_number() ? it->get<double>() : -1;
    return std::isfinite(value) ? value : -1;
  };
  MachineCosts costs;
  costs.step_time.fitted = true;
  double sum = 0;
  for (int i = 0; i < StepTimeModel::kTerms; ++i) {
    sum += costs.step_time.ms[i] = number(json["ms"], kTermNames[i]);
    if (costs.step_time.ms[i] < 0) return bad_costs(model_file);
  }
  costs.move_us_per_block = number(json, "move_us_per_block");
  if (costs.move_us_per_block < 0 || sum <= 0) return bad_costs(model_file);
  return costs;
}

double rounded(double value, int decimals) {
  const double scale = std::pow(10.0, decimals);
  return std::round(value * scale) / scale;
}

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

nlohmann::ordered_json costs_json(const MachineCosts& costs) {
  nlohmann::ordered_json terms;
  for (int i = 0; i < StepTimeModel::kTerms; ++i) terms[kTermNames[i]] = costs.step_time.ms[i];
  return {{"ms", terms}, {"move_us_per_block", costs.move_us_per_block}};
}

nlohmann::ordered_json report_json(const ServingReport& r) {
  return {{"requests", r.requests},
          {"finished", r.finished},
          {"rejected", r.rejected},
          {"duration_s", rounded(r.duration_s, 3)},
          {"output_tok_s", rounded(r.output_tok_s, 2)},
          {"ttft_p50_ms", rounded(r.ttft_p50, 3)},
          {"ttft_p99_ms", rounded(r.ttft_p99, 3)},
          {"itl_p50_ms", rounded(r.itl_p50, 3)},
          {"itl_p95_ms", rounded(r.itl_p95, 3)},
          {"itl_p99_ms", rounded(r.itl_p99, 3)},
          {"tpot_p50_ms", rounded(r.tpot_p50, 3)},
          {"tpot_p99_ms", rounded(r.tpot_p99, 3)},
          {"wait_p50_ms", rounded(r.wait_p50, 3)},
          {"wait_p99_ms", rounded(r.wait_p99, 3)},
          {"wait_max_ms", rounded(r.wait_max, 3)},
          {"hit_rate", rounded(r.hit_rate, 4)},
          {"preemptions", r.totals.preemptions},
          {"recomputed_tokens", r.totals.recomputed_tokens},
          {"evictions", r.totals.evictions},
          {"steps", r.totals.steps}};
}

}  // namespace quire
