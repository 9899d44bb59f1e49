#include "engine/server/request_log.h"

namespace quire {

void RequestLog::add(RequestLogEntry entry) {
  {
    std::lock_guard lock(mutex_);
    entry.sequence = next_++;
    entries_.push_back(entry);
    if (entries_.size() > capacity_) entries_.pop_front();
  }
  std::lock_guard lock(listeners_mutex_);
  for (const auto& listener : listeners_) listener(entry);
}

std::vector<RequestLogEntry> RequestLog::after(std::uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  std::vector<RequestLogEntry> result;
  for (const auto& entry : entries_) {
    if (entry.sequence > sequence) result.push_back(entry);
  }
  return result;
}

std::shared_ptr<void> RequestLog::observe(HttpServer::LogListener listener) {
  std::lock_guard lock(listeners_mutex_);
  const auto place = listeners_.insert(listeners_.end(), std::move(listener));
  return std::shared_ptr<void>(nullptr, [self = shared_from_this(), place](void*) {
    std::lock_guard unsubscribe(self->listeners_mutex_);
    self->listeners_.erase(place);
  });
}

}  // namespace quire
