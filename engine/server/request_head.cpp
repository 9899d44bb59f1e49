#include "engine/server/request_head.h"

#include <algorithm>
#include <charconv>

namespace quire {
namespace {

constexpr std::string_view kMethods[] = {"GET", "HEAD",  "POST",  "OPTIONS",
                                         "PUT", "PATCH", "DELETE"};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = lower(c);
  return result;
}

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Visible ASCII: what may stand in a request target.
bool is_target_char(char c) {
  return c > 0x20 && c < 0x7f;
}

bool is_value_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

ApiError bad_request(std::string message) {
  return {.status = 400, .message = std::move(message)};
}

std::optional<ApiError> parse_request_line(std::string_view line, const ServerLimits& limits,
                                           HttpRequest& request) {
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return bad_request("The request line is not 'METHOD target HTTP/1.1'.");
  }
  const auto method = line.substr(0, first), version = line.substr(last + 1);
  const auto target = line.substr(first + 1, last - first - 1);
  if (!version.starts_with("HTTP/")) {
    return bad_request("The request line is not 'METHOD target HTTP/1.1'.");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return ApiError{.status = 505, .message = "Only HTTP/1.1 and HTTP/1.0 are spoken here."};
  }
  if (std::find(std::begin(kMethods), std::end(kMethods), method) == std::end(kMethods)) {
    return ApiError{.status = 501, .message = "This HTTP method is not known here."};
  }
  if (target.size() > limits.max_target_bytes) {
    return ApiError{.status = 414, .message = "The request target is too long."};
  }
  if (!std::all_of(target.begin(), target.end(), is_target_char)) {
    return bad_request("The request target holds characters that must be percent-encoded.");
  }
  if (!target.starts_with('/') && !(target == "*" && method == "OPTIONS")) {
    return bad_request("The request target must be a path that starts with '/'.");
  }
  request.method = method;
  request.http_1_0 = version == "HTTP/1.0";
  const auto question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string_view::npos ? "" : target.substr(question + 1);
  return std::nullopt;
}

std::optional<ApiError> parse_header_line(std::string_view line, HttpRequest& request) {
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  if (colon == std::string_view::npos || name.empty() ||
      !std::all_of(name.begin(), name.end(), is_token_char)) {
    return bad_request("A header line is not 'Name: value'.");
  }
  const auto value = trim(line.substr(colon + 1));
  if (!std::all_of(value.begin(), value.end(), is_value_char)) {
    return bad_request("A header value holds control characters.");
  }
  request.headers.emplace_back(lower(name), std::string(value));
  return std::nullopt;
}

std::optional<ApiError> parse_lines(std::string_view head, const ServerLimits& limits,
                                    HttpRequest& request) {
  for (std::size_t line_no = 0; !head.empty(); ++line_no) {
    const auto end = head.find('\n');
    if (end == std::string_view::npos || end == 0 || head[end - 1] != '\r') {
      return bad_request("Lines of a request's head must end with CR LF.");
    }
    const auto line = head.substr(0, end - 1);
    head.remove_prefix(end + 1);
    if (line.empty()) break;
    if (line_no > limits.max_headers) {
      return ApiError{.status = 431, .message = "The request has too many headers."};
    }
    auto refused =
        line_no == 0 ? parse_request_line(line, limits, request) : parse_header_line(line, request);
    if (refused) return refused;
  }
  if (request.method.empty()) return bad_request("The request is empty.");
  return std::nullopt;
}

std::optional<ApiError> read_length(const HttpRequest& request, const ServerLimits& limits,
                                    BodyFraming& framing) {
  const std::string* text = request.header("content-length");
  if (text == nullptr) return std::nullopt;
  if (request.header_count("content-length") > 1) {
    return bad_request("The request has more than one Content-Length.");
  }
  const bool digits = !text->empty() && std::all_of(text->begin(), text->end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return bad_request("Content-Length is not a number.");
  std::size_t length = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), length);
  if (parsed.ec != std::errc() || length > limits.max_body_bytes) {
    return ApiError{.status = 413,
                    .message = "The body is larger than the " +
                               std::to_string(limits.max_body_bytes) + " bytes accepted here."};
  }
  framing.has_length = true;
  framing.length = length;
  return std::nullopt;
}

std::optional<ApiError> read_codings(const HttpRequest& request, BodyFraming& framing) {
  if (const std::string* coding = request.header("transfer-encoding")) {
    if (request.header_count("transfer-encoding") > 1 ||
        !equals_ignoring_case(*coding, "chunked")) {
      return bad_request("The only Transfer-Encoding understood here is 'chunked'.");
    }
    if (request.header("content-length") != nullptr) {
      return bad_request("The request has both Content-Length and Transfer-Encoding.");
    }
    if (request.http_1_0) return bad_request("HTTP/1.0 has no Transfer-Encoding.");
    framing.chunked = true;
  }
  if (const std::string* coding = request.header("content-encoding");
      coding != nullptr && !equals_ignoring_case(*coding, "identity")) {
    return ApiError{.status = 415, .message = "Compressed bodies are not accepted; send it plain."};
  }
  if (const std::string* expect = request.header("expect")) {
    if (!equals_ignoring_case(*expect, "100-continue")) {
      return ApiError{.status = 417, .message = "The only Expect understood is '100-continue'."};
    }
    framing.expects_continue = !request.http_1_0;
  }
  return std::nullopt;
}

std::optional<ApiError> check_host_count(const HttpRequest& request) {
  const auto count = request.header_count("host");
  if (count == 1) return std::nullopt;
  return bad_request(count == 0 ? "The request has no Host header."
                                : "The request has more than one Host header.");
}

}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::size_t HttpRequest::header_count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(headers.begin(), headers.end(),
                                                [&](const auto& h) { return h.first == name; }));
}

std::size_t find_head_end(std::string_view data, std::size_t from) {
  // The blank line may begin up to three bytes before what is new. A bare LF LF ends a head too,
  // so that it can be refused at once instead of being waited for.
  from = from > 3 ? from - 3 : 0;
  const auto strict = data.find("\r\n\r\n", from), loose = data.find("\n\n", from);
  if (strict == std::string_view::npos && loose == std::string_view::npos) return strict;
  return strict < loose ? strict + 4 : loose + 2;
}

std::optional<ApiError> parse_request_head(std::string_view head, const ServerLimits& limits,
                                           HttpRequest& request, BodyFraming& framing) {
  if (auto refused = parse_lines(head, limits, request)) return refused;
  if (auto refused = check_host_count(request)) return refused;
  if (auto refused = read_codings(request, framing)) return refused;
  return read_length(request, limits, framing);
}

bool wants_close(const HttpRequest& request) {
  const std::string* connection = request.header("connection");
  if (request.http_1_0) {
    return connection == nullptr || !equals_ignoring_case(*connection, "keep-alive");
  }
  return connection != nullptr && equals_ignoring_case(*connection, "close");
}

}  // namespace quire
