#include "engine/server/access_policy.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "engine/server/request_head.h"

namespace quire {
namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

bool is_ipv4(const std::string& text) {
  in_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

bool is_ipv6(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

std::string bracketed(const std::string& host) {
  return is_ipv6(host) ? "[" + host + "]" : host;
}

std::string machine_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? lower_case(name) : std::string();
}

bool is_ip_literal(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    return is_ipv6(std::string(host.substr(1, host.size() - 2)));
  }
  return is_ipv4(std::string(host));
}

std::string_view bearer_token(std::string_view value) {
  constexpr std::string_view kScheme = "bearer ";
  if (value.size() <= kScheme.size() ||
      !equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return {};
  }
  value.remove_prefix(kScheme.size());
  const auto begin = value.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : value.substr(begin);
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  const std::size_t common = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < common; ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

bool is_loopback_host(const std::string& host) {
  if (equals_ignoring_case(host, "localhost")) return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool is_wildcard_host(const std::string& host) {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6;
  return host.empty() ||
         (inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

AccessPolicy::AccessPolicy(const ServerOptions& options, int port)
    : port_suffix_(":" + std::to_string(port)),
      wildcard_(is_wildcard_host(options.host)),
      api_key_(options.api_key) {
  std::vector<std::string> names;
  if (is_loopback_host(options.host) || wildcard_) names = {"127.0.0.1", "localhost", "[::1]"};
  if (wildcard_) {
    const std::string name = machine_name();
    if (!name.empty()) names.insert(names.end(), {name, name + ".local"});
  } else {
    names.push_back(lower_case(bracketed(options.host)));
  }
  for (const auto& name : names) {
    hosts_.push_back(name + port_suffix_);
    if (port == 80) hosts_.push_back(name);
  }
}

bool AccessPolicy::host_allowed(std::string_view host) const {
  const std::string wanted = lower_case(host);
  if (std::find(hosts_.begin(), hosts_.end(), wanted) != hosts_.end()) return true;
  if (!wildcard_ || !wanted.ends_with(port_suffix_)) return false;
  return is_ip_literal(std::string_view(wanted).substr(0, wanted.size() - port_suffix_.size()));
}

bool AccessPolicy::key_matches(const HttpRequest& request) const {
  bool matched = false;
  for (const auto& [name, value] : request.headers) {
    std::string_view offered;
    if (name == "authorization") {
      offered = bearer_token(value);
    } else if (name == "x-api-key" || name == "api-key") {
      offered = value;
    } else {
      continue;
    }
    matched |= equal_in_constant_time(offered, api_key_);
  }
  return matched;
}

std::optional<ApiError> AccessPolicy::check(const HttpRequest& request, bool needs_key) const {
  if (!host_allowed(*request.header("host"))) {
    return ApiError{.status = 403,
                    .message =
                        "The Host header does not name this server; use the address it "
                        "was started on, with its port.",
                    .code = "host_not_allowed"};
  }
  for (const auto& [name, value] : request.headers) {
    if (name != "origin") continue;
    constexpr std::string_view kScheme = "http://";
    if (value.starts_with(kScheme) && host_allowed(value.substr(kScheme.size()))) continue;
    return ApiError{.status = 403,
                    .message = "Web pages of another origin may not use this server.",
                    .code = "origin_not_allowed"};
  }
  if (needs_key && !api_key_.empty() && !key_matches(request)) {
    return ApiError{.status = 401,
                    .message =
                        "The API key is missing or wrong; send it as 'Authorization: "
                        "Bearer KEY'.",
                    .code = "invalid_api_key",
                    .headers = {{"WWW-Authenticate", "Bearer"}}};
  }
  return std::nullopt;
}

}  // namespace quire
