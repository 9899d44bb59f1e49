#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/server/http_error.h"
#include "engine/server/http_types.h"

namespace quire {

// Who may talk to the server: decided from a request's head, before routing and before its body.
//
// Host must name this server exactly, so that a web page cannot reach it by rebinding a name of its
// own to a local address. On a wildcard address any IP literal passes (rebinding needs a name),
// and so does the machine's own name. A page of another origin is refused whatever it asks; no CORS
// headers are ever sent. With a key set, every route but the health check needs it, unknown ones
// included.
class AccessPolicy {
 public:
  AccessPolicy(const ServerOptions& options, int port);

  // What to refuse the request with. `needs_key` is false for the health check and OPTIONS.
  std::optional<ApiError> check(const HttpRequest& request, bool needs_key) const;

 private:
  bool host_allowed(std::string_view host) const;
  bool key_matches(const HttpRequest& request) const;

  std::vector<std::string> hosts_;  // accepted Host values, lower case, with the port
  std::string port_suffix_;         // ":8080"
  bool wildcard_ = false;
  std::string api_key_;
};

// Takes as long for any two strings of the same lengths, wherever they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

bool is_loopback_host(const std::string& host);  // numeric loopback address or "localhost"
bool is_wildcard_host(const std::string& host);  // "", 0.0.0.0 or ::

}  // namespace quire
