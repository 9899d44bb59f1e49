#pragma once

#include <functional>
#include <memory>

#include "engine/server/client_socket.h"
#include "engine/server/http_types.h"

namespace quire {

// Answers requests of one connection through cpp-httplib, the only place that includes it.
//
// Debian's 0.11.4 reads requests with known holes (unbounded heads and chunked bodies, percent
// escapes in headers, unread bodies taken for the next request). So it never reads from the socket:
// it is driven through a Stream of ours that holds a canonical head made from a request already
// parsed, and it serialises the reply. Connection thread only.
class Responder {
 public:
  // `keep_alive_s` and `keep_alive_max` are what the Keep-Alive header announces.
  Responder(double keep_alive_s, int keep_alive_max);
  ~Responder();

  // Runs `handler` and writes its reply. False when the connection cannot be used any more.
  bool respond(ClientSocket& socket, const HttpRequest& request, bool close,
               const std::function<HttpReply()>& handler);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace quire
