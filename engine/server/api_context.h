#pragma once

#include <atomic>
#include <memory>
#include <variant>

#include "engine/server/http_error.h"
#include "engine/server/metrics.h"
#include "engine/server/router.h"

namespace quire {

// What the routes share. Outlives every connection.
struct ApiContext {
  std::shared_ptr<ModelHost> host;
  ServerLimits limits;
  std::shared_ptr<ServerMetrics> metrics;
  std::atomic<int> active_generations{0};
  std::atomic<bool> stopping{false};
};

// The loaded model, or why there is none: 503 while loading, stopping or empty.
std::variant<std::shared_ptr<HostedModel>, ApiError> require_model(const ApiContext& context);

// /models, /props, /health, /metrics.
void add_info_routes(Router& router, ApiContext& context);
// /chat/completions, /completions.
void add_generation_routes(Router& router, ApiContext& context);
// /tokenize, /detokenize, /apply-template.
void add_text_routes(Router& router, ApiContext& context);

}  // namespace quire
