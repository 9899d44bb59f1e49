#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "engine/server/client_socket.h"
#include "engine/server/http_error.h"
#include "engine/server/request_head.h"

namespace quire {

// Bytes of request bodies held at once by all connections. Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_(limit) {}
  bool take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

// Reads one body, by length or in chunks, checking every bound while it reads. Returns what it
// takes from the budget when destroyed, so it lives as long as the body does.
class BodyReader {
 public:
  BodyReader(ClientSocket& socket, const ServerLimits& limits, BodyBudget& budget);
  ~BodyReader();
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  // What to refuse the request with; status 0 means that the client is gone.
  std::optional<ApiError> read(const BodyFraming& framing, std::string& body);

 private:
  std::optional<ApiError> read_exactly(std::size_t count, std::string& body);
  std::optional<ApiError> read_chunks(std::string& body);
  std::optional<ApiError> read_line(std::string& line);
  std::optional<ApiError> more();

  ClientSocket& socket_;
  const ServerLimits& limits_;
  BodyBudget& budget_;
  Deadline deadline_;
  std::size_t taken_ = 0;
};

}  // namespace quire
