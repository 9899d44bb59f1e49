#include "engine/server/connection.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <random>

#include "engine/server/request_head.h"
#include "engine/server/responder.h"

namespace quire {
namespace {

constexpr std::size_t kReadAhead = 16 * 1024;
constexpr std::size_t kMaxLoggedText = 96;

std::string random_id() {
  constexpr char kDigits[] = "0123456789abcdef";
  thread_local std::random_device device;
  std::string id;
  for (int word = 0; word < 3; ++word) {
    std::uint32_t bits = device();
    for (int i = 0; i < 8; ++i, bits >>= 4) id += kDigits[bits & 15];
  }
  return id;
}

std::string loggable(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kMaxLoggedText)) result += c >= 0x20 && c < 0x7f ? c : '?';
  return result;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 411:
      return "Length Required";
    case 413:
      return "Payload Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

bool is_json(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (type == nullptr || request.header_count("content-type") > 1) return false;
  std::string_view name(*type);
  name = name.substr(0, name.find(';'));
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return equals_ignoring_case(name, "application/json");
}

// One request on one connection, from its head to its last byte.
class RequestExchange : public Exchange {
 public:
  RequestExchange(ClientSocket& socket, const std::string& peer)
      : socket_(socket), id_(random_id()) {
    http.peer = peer;
    entry_.time_unix_s =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }

  const HttpRequest& request() const override { return http; }
  bool client_gone() const override { return socket_.client_gone(); }
  RequestLogEntry& log() override { return entry_; }
  const std::string& id() const override { return id_; }

  // What the log shows of the request; its status comes with the answer.
  void describe() {
    entry_.method = loggable(http.method);
    entry_.path = loggable(http.path);
    const std::string* agent = http.header("user-agent");
    entry_.client = http.peer + (agent == nullptr ? "" : " " + loggable(*agent));
  }
  void finish(RequestLog& log) {
    entry_.duration_s =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    log.add(entry_);
  }

  HttpRequest http;

 private:
  ClientSocket& socket_;
  RequestLogEntry entry_;
  const std::string id_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Connection {
 public:
  Connection(ConnectionEntry& entry, const ConnectionContext& context)
      : entry_(entry),
        context_(context),
        socket_(entry.fd, context.limits.write_stall_s),
        responder_(context.limits.idle_s, context.limits.max_keep_alive) {}

  void run() {
    for (int served = 1; !context_.listener.stopping(); ++served) {
      if (!wait_for_request()) return;
      RequestExchange exchange(socket_, entry_.peer);
      const bool last = served >= context_.limits.max_keep_alive;
      if (!handle(exchange, last)) return;
    }
  }

 private:
  bool wait_for_request() {
    entry_.enter(ConnectionPhase::kIdle);
    const Deadline deadline = deadline_in(context_.limits.idle_s);
    while (true) {
      // Some clients send a stray line end after a body.
      while (socket_.buffered().starts_with("\r\n")) socket_.consume(2);
      if (!socket_.buffered().empty() && socket_.buffered() != "\r") return true;
      if (socket_.read_some(kReadAhead, deadline) != ClientSocket::ReadResult::kData) return false;
    }
  }

  // False when the connection must end.
  bool handle(RequestExchange& exchange, bool last) {
    entry_.enter(ConnectionPhase::kReading);
    HttpRequest& request = exchange.http;
    BodyFraming framing;
    std::optional<ApiError> refused = read_head(request, framing);
    exchange.describe();
    const Route* route = nullptr;
    if (!refused) refused = check_head(request, framing, route);
    BodyReader body(socket_, context_.limits, context_.body_budget);
    if (!refused && framing.expects_continue && socket_.buffered().empty()) {
      if (!socket_.write_all("HTTP/1.1 100 Continue\r\n\r\n")) return false;
    }
    if (!refused) refused = body.read(framing, request.body);
    if (refused) {
      if (refused->status != 0) refuse(exchange, *refused);
      return false;
    }
    const bool close =
        last || request.http_1_0 || wants_close(request) || context_.listener.stopping();
    return answer(exchange, route, close);
  }

  // Status 0 in the refusal: the client is gone.
  std::optional<ApiError> read_head(HttpRequest& request, BodyFraming& framing) {
    const ServerLimits& limits = context_.limits;
    const Deadline deadline = deadline_in(limits.head_s);
    std::size_t searched = 0, end;
    while ((end = find_head_end(socket_.buffered(), searched)) == std::string_view::npos ||
           end > limits.max_head_bytes) {
      searched = socket_.buffered().size();
      if (searched > limits.max_head_bytes) {
        return ApiError{.status = 431, .message = "The request's head is too large."};
      }
      switch (socket_.read_some(kReadAhead, deadline)) {
        case ClientSocket::ReadResult::kData:
          break;
        case ClientSocket::ReadResult::kClosed:
          return ApiError{.status = 0};
        case ClientSocket::ReadResult::kTimeout:
          return ApiError{.status = 408, .message = "The request's head took too long to arrive."};
      }
    }
    auto refused = parse_request_head(socket_.buffered().substr(0, end), limits, request, framing);
    socket_.consume(end);
    return refused;
  }

  std::optional<ApiError> check_head(const HttpRequest& request, const BodyFraming& framing,
                                     const Route*& route) {
    if (auto refused = context_.access.check(request, context_.router.needs_key(request))) {
      return refused;
    }
    if (request.method == "OPTIONS") return std::nullopt;
    ApiError refusal;
    route = context_.router.find(request, refusal);
    if (route == nullptr) return refusal;
    if (request.method != "POST") return std::nullopt;
    if (!framing.chunked && !framing.has_length) {
      return ApiError{.status = 411, .message = "A POST needs Content-Length or a chunked body."};
    }
    if (!is_json(request)) {
      return ApiError{.status = 415,
                      .message =
                          "The body must be JSON: send 'Content-Type: application/json' "
                          "(curl: -H 'Content-Type: application/json')."};
    }
    return std::nullopt;
  }

  void refuse(RequestExchange& exchange, ApiError refusal) {
    refusal.headers.emplace_back("x-request-id", exchange.id());
    const bool sent = socket_.write_all(raw_error_answer(refusal));
    exchange.log().status = refusal.status;
    exchange.finish(context_.log);
    if (sent) socket_.close_after_answer();
  }

  bool answer(RequestExchange& exchange, const Route* route, bool close) {
    entry_.enter(ConnectionPhase::kServing);
    const bool usable = responder_.respond(socket_, exchange.http, close, [&] {
      HttpReply reply = route == nullptr ? options_reply(exchange.http) : run(*route, exchange);
      reply.headers.emplace_back("x-request-id", exchange.id());
      exchange.log().status = reply.status;
      return reply;
    });
    if (route == nullptr || route->logged) exchange.finish(context_.log);
    return usable;
  }

  HttpReply options_reply(const HttpRequest& request) {
    const std::string methods = context_.router.allowed(request.path);
    HttpReply reply{.status = 204};
    reply.headers.emplace_back("Allow", methods.empty() ? "GET, HEAD, POST, OPTIONS" : methods);
    return reply;
  }

  HttpReply run(const Route& route, Exchange& exchange) {
    try {
      return route.handler(exchange);
    } catch (const std::exception& failure) {
      // The text may hold addresses or paths: it goes to the log, not to the client.
      spdlog::error("request {} failed: {}", exchange.id(), failure.what());
    }
    return error_reply({.status = 500,
                        .message = "The server failed on this request; its log has more under id " +
                                   exchange.id() + "."});
  }

  ConnectionEntry& entry_;
  const ConnectionContext& context_;
  ClientSocket socket_;
  Responder responder_;
};

}  // namespace

std::string raw_error_answer(const ApiError& error) {
  const HttpReply reply = error_reply(error);
  std::string answer = "HTTP/1.1 " + std::to_string(reply.status) + " ";
  answer.append(reason_phrase(reply.status))
      .append("\r\nContent-Type: ")
      .append(reply.content_type);
  answer +=
      "\r\nContent-Length: " + std::to_string(reply.body.size()) + "\r\nConnection: close\r\n";
  for (const auto& [name, value] : reply.headers) answer += name + ": " + value + "\r\n";
  return answer + "\r\n" + reply.body;
}

void serve_connection(ConnectionEntry& entry, const ConnectionContext& context) {
  try {
    Connection(entry, context).run();
  } catch (const std::exception& failure) {
    spdlog::error("connection from {} failed: {}", entry.peer, failure.what());
  }
}

}  // namespace quire
