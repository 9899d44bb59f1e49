#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "engine/server/http_error.h"
#include "engine/server/http_types.h"

namespace quire {

// How a request's body is framed, decided before a byte of it is read.
struct BodyFraming {
  bool chunked = false;
  bool has_length = false;
  std::size_t length = 0;
  bool expects_continue = false;  // the client waits for "100 Continue"
};

// Position just behind the blank line that ends a head; npos while it is incomplete. `from` is
// where an earlier search over a shorter `data` may be taken up again.
std::size_t find_head_end(std::string_view data, std::size_t from);

// Parses and checks a complete head (request line, headers, blank line). Strict where leniency has
// let requests be smuggled: CRLF only, no folding, no blank before ':', one Host, one
// Content-Length, no Content-Length beside Transfer-Encoding, no transfer or content coding other
// than chunked, no absolute-form target. Returns what to refuse it with.
std::optional<ApiError> parse_request_head(std::string_view head, const ServerLimits& limits,
                                           HttpRequest& request, BodyFraming& framing);

// True for "Connection: close" in any letter case, and for HTTP/1.0 without keep-alive.
bool wants_close(const HttpRequest& request);

bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace quire
