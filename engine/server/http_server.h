#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/model_host.h"
#include "engine/result.h"

namespace quire {

// Bounds on what a client may send and how long it may take. Exceeding one is an error answer or a
// closed connection, never a hang.
struct ServerLimits {
  std::size_t max_body_bytes = 32u << 20;
  std::size_t max_total_body_bytes = 256u << 20;  // held by all connections together
  std::size_t max_head_bytes = 64u << 10;         // request line and headers
  std::size_t max_headers = 100;
  std::size_t max_target_bytes = 8192;
  int max_json_depth = 64;
  std::size_t max_json_values = 1'000'000;  // values in one body, all levels together
  std::size_t max_json_keys = 1024;         // of one object
  std::size_t max_messages = 4096;
  std::size_t max_stop_strings = 64;
  std::size_t max_stop_bytes = 1024;
  std::size_t max_cache_salt_bytes = 256;
  std::size_t max_unread_bytes = 4u << 20;  // output a client has not read before it is dropped
  int max_connections = 256;                // beyond it the longest idle one is closed, else 503
  int max_keep_alive = 100;                 // requests on one connection
  double idle_s = 30;                       // between two requests
  double head_s = 10;                       // from a head's first byte to its last
  double body_s = 60;                       // from a body's first byte to its last
  double write_stall_s = 30;                // a client that reads nothing for so long is dropped
  double keep_alive_comment_s = 30;         // silence on a stream before a ":" line
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;      // 0: any free one
  std::string api_key;  // "" = none asked for; required unless `host` is a loopback address
  ServerLimits limits;
};

// One answered request. Holds no prompt, no answer and no key.
struct RequestLogEntry {
  std::uint64_t sequence = 0;  // counts every entry since the server started, from 1
  double time_unix_s = 0;      // when its head had arrived
  std::string method, path;    // path without the query
  int status = 0;
  std::string client;  // "127.0.0.1" and what the client calls itself
  std::string model;   // id of the model that answered; empty for routes without one
  int prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  double ttft_s = -1;  // submit to first token; -1 = none came
  double duration_s = 0;
  RequestId request = kNoRequest;  // in the engine that ran it
  bool streamed = false, client_gone = false;
};

// The OpenAI-style HTTP server over the hosted model. Own threads: one accepts, one per connection.
// Every method may be called from any thread.
class HttpServer {
 public:
  // Binds and serves. kAddressInUse when the port is taken, kPermissionDenied when it may not be
  // bound, kInvalidArgument for an unknown host, or one off loopback without an API key.
  static Result<std::unique_ptr<HttpServer>> start(ServerOptions options,
                                                   std::shared_ptr<ModelHost> host);
  // stop(0).
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  virtual std::string address() const = 0;  // "http://127.0.0.1:8080", without /v1
  virtual const ServerOptions& options() const = 0;

  // Refuses new work with 503, lets requests in flight finish for `drain_s`, aborts the rest and
  // closes every connection. Returns when no thread of the server is left. Idempotent.
  virtual void stop(double drain_s) = 0;
  virtual int active_connections() const = 0;
  virtual int active_generations() const = 0;  // requests the engine works on for this server

  // The newest entries (a bounded ring) with a sequence above `after`, oldest first.
  virtual std::vector<RequestLogEntry> request_log(std::uint64_t after = 0) const = 0;
  // Called on a connection's thread after each entry; must be quick. The token unsubscribes when
  // dropped; no call is in flight once its destructor returned.
  using LogListener = std::function<void(const RequestLogEntry&)>;
  virtual std::shared_ptr<void> observe_log(LogListener listener) = 0;
};

// The first port in [from, from + 100) that can be bound on `host`; 0 when there is none.
int find_free_port(const std::string& host, int from);

}  // namespace quire
