#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/server/http_server.h"

namespace quire {

// The last `capacity` answered requests, and who wants to hear of new ones. Thread-safe.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  explicit RequestLog(std::size_t capacity = 1000) : capacity_(capacity) {}

  void add(RequestLogEntry entry);  // sets its sequence
  std::vector<RequestLogEntry> after(std::uint64_t sequence) const;
  std::shared_ptr<void> observe(HttpServer::LogListener listener);

 private:
  using Listeners = std::list<HttpServer::LogListener>;

  const std::size_t capacity_;
  mutable std::mutex mutex_;  // guards entries_ and next_
  std::deque<RequestLogEntry> entries_;
  std::uint64_t next_ = 1;
  std::mutex listeners_mutex_;  // held while they are called
  Listeners listeners_;
};

}  // namespace quire
