#include "engine/runner/bench_model_json.h"

#include <nlohmann/json.hpp>

namespace quire {
namespace {

using Json = nlohmann::ordered_json;

Json series_json(const ModelBenchSeries& s) {
  const Spread tok_s = rate(s);
  Json json = {{size_name(s.kind), s.size}};
  if (s.kind == ModelBenchKind::kParallel) json["depth"] = s.depth;
  json.update({{"tokens", s.tokens},
               {"steps", s.steps},
               {"prompt_tokens", s.prompt_tokens},
               {"cached_tokens", s.cached_tokens},
               {"tok_s", tok_s.median},
               {"tok_s_min", tok_s.min},
               {"tok_s_max", tok_s.max},
               {"step_ms", seconds_per_step(s) * 1e3},
               {"wall_s", spread(s.seconds).median},
               {"rounds_s", s.seconds},
               {"rounds_cpu_s", s.cpu_seconds}});
  return json;
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string model_bench_json(const ModelBenchRun& run) {
  Json json = {{"model", run.model},
               {"description", run.description},
               {"backend", run.backend},
               {"kv_bytes_per_token", run.kv_bytes_per_token},
               {"rounds", run.options.rounds},
               {"decode_tokens", run.options.decode_tokens},
               {"shared_prefix_tokens", run.options.shared_prefix}};
  const auto slope = seconds_per_context_token(run.series);
  json["us_per_context_token"] = slope ? Json(*slope * 1e6) : Json();
  for (const auto kind : {ModelBenchKind::kPrefill, ModelBenchKind::kDecode,
                          ModelBenchKind::kParallel, ModelBenchKind::kSharedPrefix})
    json[kind_name(kind)] = Json::array();
  for (const ModelBenchSeries& series : run.series)
    json[kind_name(series.kind)].push_back(series_json(series));
  return line(json);
}

std::string model_bench_round_json(const ModelBenchSeries& s) {
  return line({{"kind", kind_name(s.kind)},
               {"size", s.size},
               {"round", s.seconds.size()},
               {"tokens", s.tokens},
               {"seconds", s.seconds.back()},
               {"cpu_seconds", s.cpu_seconds.back()}});
}

const char* kind_name(ModelBenchKind kind) {
  switch (kind) {
    case ModelBenchKind::kPrefill:
      return "prefill";
    case ModelBenchKind::kDecode:
      return "decode";
    case ModelBenchKind::kParallel:
      return "parallel";
    case ModelBenchKind::kSharedPrefix:
      return "shared_prefix";
  }
  return "";
}

const char* size_name(ModelBenchKind kind) {
  switch (kind) {
    case ModelBenchKind::kPrefill:
      return "prompt";
    case ModelBenchKind::kDecode:
      return "depth";
    case ModelBenchKind::kParallel:
      return "streams";
    case ModelBenchKind::kSharedPrefix:
      return "requests";
  }
  return "";
}

}  // namespace quire
