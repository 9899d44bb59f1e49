#include <nlohmann/json.hpp>

#include "engine/server/api_context.h"
#include "engine/server/json_fields.h"

namespace quire {
namespace {

HttpReply json_reply(const Json& value) {
  return {.body = dump_json(value)};
}

ApiError not_ready(std::string message) {
  return {.status = 503, .message = std::move(message), .code = "not_ready", .retry_after_s = 2};
}

Json model_json(const HostedModel& model) {
  const int context = model.engine->config().effective_context();
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created_unix_s},
          {"owned_by", "quire"},
          {"name", model.name},
          {"description", model.description},
          {"max_model_len", context},
          {"context_length", context},
          {"architecture", {{"input_modalities", {"text"}}, {"output_modalities", {"text"}}}},
          {"meta",
           {{"n_ctx", context},
            {"n_ctx_train", model.config.context_length},
            {"n_vocab", model.config.vocab_size},
            {"n_embd", model.config.hidden_size},
            {"n_params", model.num_parameters},
            {"size", model.memory.weights}}}};
}

HttpReply list_models(const ApiContext& context) {
  Json data = Json::array();
  if (const auto model = context.host->current()) {
    data.push_back(model_json(*model));
  } else if (context.host->status().state == HostState::kLoading) {
    // An empty list would be remembered by clients; this they repeat.
    return error_reply(std::get<ApiError>(require_model(context)));
  }
  return json_reply({{"object", "list"}, {"data", std::move(data)}});
}

HttpReply show_model(const ApiContext& context, const std::string& id) {
  const auto found = require_model(context);
  if (const auto* error = std::get_if<ApiError>(&found)) return error_reply(*error);
  const auto& model = std::get<std::shared_ptr<HostedModel>>(found);
  if (id != model->id) {
    return error_reply(
        {.status = 404,
         .message = "No model of that name is loaded; this server runs '" + model->id + "'.",
         .code = "model_not_found",
         .param = "model"});
  }
  return json_reply(model_json(*model));
}

// Settings as numbers, truths and words; what seeds draws stays private.
Json engine_settings(const EngineConfig& config) {
  Json settings = Json::object();
  for (const ConfigField& field : config_fields(config)) {
    if (field.name == "seed") continue;
    Json value = Json::parse(field.value, nullptr, false);
    settings[std::string(field.name)] = value.is_discarded() ? Json(field.value) : value;
  }
  return settings;
}

HttpReply show_props(const ApiContext& context) {
  const auto found = require_model(context);
  if (const auto* error = std::get_if<ApiError>(&found)) return error_reply(*error);
  const auto& model = std::get<std::shared_ptr<HostedModel>>(found);
  const EngineConfig config = model->engine->config();
  return json_reply(
      {{"default_generation_settings", {{"n_ctx", config.effective_context()}}},
       {"total_slots", config.max_num_seqs},
       {"prefill_chunk_size", config.prefill_chunk.alone},
       {"prefill_chunk_size_contended", config.prefill_chunk.contended},
       {"engine", engine_settings(config)},
       {"memory",
        {{"weights", model->memory.weights},
         {"kv_pool", model->memory.kv_pool},
         {"buffers", model->memory.buffers},
         {"program", model->memory.program},
         {"estimated", model->memory.estimate()},
         {"resident", model->memory.resident}}},
       {"model_alias", model->id},
       {"model_path", model->id},  // clients show it; the real path is nobody's business
       {"chat_template", model->chat_template == nullptr ? "" : model->chat_template->source()},
       {"chat_template_caps", Json::object()},
       {"modalities", {{"vision", false}, {"audio", false}}},
       {"build_info", "quire"},
       {"is_sleeping", false}});
}

HttpReply show_health(const ApiContext& context) {
  const auto found = require_model(context);
  if (const auto* error = std::get_if<ApiError>(&found)) return error_reply(*error);
  return json_reply({{"status", "ok"}});
}

}  // namespace

std::variant<std::shared_ptr<HostedModel>, ApiError> require_model(const ApiContext& context) {
  if (context.stopping) return not_ready("The server is stopping.");
  if (auto model = context.host->current()) {
    if (model->engine->failure().empty()) return model;
    return ApiError{.status = 500,
                    .message = "The engine failed and has to be reloaded; its log says why.",
                    .code = "engine_failure"};
  }
  const HostStatus status = context.host->status();
  switch (status.state) {
    case HostState::kLoading: {
      const auto& progress = status.progress;
      const std::size_t percent =
          progress.bytes_total == 0 ? 0 : progress.bytes_done * 100 / progress.bytes_total;
      return not_ready("The model is loading (" + std::to_string(percent) + " %); try again soon.");
    }
    case HostState::kDraining:
      return not_ready("The model is being replaced; try again soon.");
    case HostState::kFailed:
      return not_ready("The model could not be loaded; the server's log says why.");
    default:
      return not_ready("No model is loaded.");
  }
}

void add_info_routes(Router& router, ApiContext& context) {
  router.add({.method = "GET", .path = "/models", .handler = [&context](Exchange&) {
                return list_models(context);
              }});
  Route model{.method = "GET", .path = "/models/*", .handler = {}};
  model.handler = [&context, route = model](Exchange& exchange) {
    return show_model(context, path_tail(route, exchange.request().path));
  };
  router.add(std::move(model));
  router.add({.method = "GET", .path = "/props", .handler = [&context](Exchange&) {
                return show_props(context);
              }});
  router.add({.method = "GET",
              .path = "/health",
              .handler = [&context](Exchange&) { return show_health(context); },
              .needs_key = false,
              .logged = false});
  router.add({.method = "GET",
              .path = "/metrics",
              .handler =
                  [&context](Exchange&) {
                    return HttpReply{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                                     .body = context.metrics->prometheus_text()};
                  },
              .logged = false});
}

}  // namespace quire
