#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/server/http_server.h"

// What routes see of HTTP. Nothing here knows the HTTP library.
namespace quire {

// One request whose head was accepted (see request_head.h) and whose body was read in full.
struct HttpRequest {
  std::string method;
  std::string path;   // as sent, without the query; starts with '/' (or is "*")
  std::string query;  // without the '?'
  bool http_1_0 = false;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case, values trimmed
  std::string body;
  std::string peer;  // the client's address, numeric

  // The first header of that (lower-case) name; null when there is none.
  const std::string* header(std::string_view name) const;
  std::size_t header_count(std::string_view name) const;
};

// Receives a streamed body. Connection thread only.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;
  // False when the client is gone; nothing more can be written then.
  virtual bool write(std::string_view data) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  // When set, writes the body after the head was sent; `body` is unused.
  std::function<void(BodyWriter&)> stream = {};
};

// One request being answered, as its handler sees it.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  // True once the client closed its side or the server is closing the connection. Cheap; a
  // handler that waits asks at least every kClientPollMs.
  virtual bool client_gone() const = 0;
  virtual RequestLogEntry& log() = 0;
  virtual const std::string& id() const = 0;  // random; sent as x-request-id
};

inline constexpr int kClientPollMs = 40;

using RouteHandler = std::function<HttpReply(Exchange&)>;

}  // namespace quire
