#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/server/http_error.h"
#include "engine/server/http_types.h"

namespace quire {

struct Route {
  std::string method;  // "GET" also answers HEAD
  std::string path;    // without "/v1" and without a trailing slash; "/models/*" takes the rest
  RouteHandler handler;
  bool needs_key = true;
  bool logged = true;
};

// Finds the handler of a request by plain comparison; no regular expressions. Every path is served
// with and without "/v1", a trailing slash is tolerated. Immutable once built; any thread.
class Router {
 public:
  void add(Route route) { routes_.push_back(std::move(route)); }

  // The route, or null with `refusal` set: 404, or 405 with Allow.
  const Route* find(const HttpRequest& request, ApiError& refusal) const;
  // Methods served at the path, for Allow; empty when it is unknown.
  std::string allowed(std::string_view path) const;
  // True when a request there needs the API key: unknown paths do.
  bool needs_key(const HttpRequest& request) const;

 private:
  std::vector<Route> routes_;
};

// The path without a trailing slash and without a leading "/v1".
std::string_view route_path(std::string_view path);
// What stands for '*' in a route that ends with it, percent-decoded; empty when it is malformed.
std::string path_tail(const Route& route, std::string_view path);

}  // namespace quire
