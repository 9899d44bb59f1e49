#include "engine/server/router.h"

namespace quire {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool path_matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return route.path == path;
  const std::string_view prefix(route.path.data(), route.path.size() - 1);
  return path.size() > prefix.size() && path.starts_with(prefix);
}

bool method_matches(const Route& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

}  // namespace

std::string_view route_path(std::string_view path) {
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  return path;
}

std::string path_tail(const Route& route, std::string_view path) {
  const auto coded = route_path(path).substr(route.path.size() - 1);
  std::string tail;
  for (std::size_t i = 0; i < coded.size(); ++i) {
    if (coded[i] != '%') {
      tail += coded[i];
      continue;
    }
    const int high = i + 2 < coded.size() ? hex_digit(coded[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(coded[i + 2]) : -1;
    if (low < 0) return {};
    tail += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return tail;
}

const Route* Router::find(const HttpRequest& request, ApiError& refusal) const {
  const auto path = route_path(request.path);
  for (const auto& route : routes_) {
    if (path_matches(route, path) && method_matches(route, request.method)) return &route;
  }
  if (const std::string methods = allowed(request.path); !methods.empty()) {
    refusal = {.status = 405,
               .message = "This path answers " + methods + ".",
               .code = "method_not_allowed",
               .headers = {{"Allow", methods}}};
  } else {
    refusal = {.status = 404,
               .message = "There is nothing at this path; the API is under /v1.",
               .code = "unknown_route"};
  }
  return nullptr;
}

std::string Router::allowed(std::string_view path) const {
  std::string methods;
  for (const auto& route : routes_) {
    if (!path_matches(route, route_path(path))) continue;
    methods += methods.empty() ? "" : ", ";
    methods += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  return methods.empty() ? methods : methods + ", OPTIONS";
}

bool Router::needs_key(const HttpRequest& request) const {
  if (request.method == "OPTIONS") return false;
  ApiError ignored;
  const Route* route = find(request, ignored);
  return route == nullptr || route->needs_key;
}

}  // namespace quire
