#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/core/step_record.h"
#include "engine/engine.h"

namespace quire {

// The engine's side of one reader's ring. Pushing drops the oldest records once `capacity` are
// waiting; the lock is held for a pointer swap only, so neither side waits for the other's work.
class RingBuffer : public StepRing, public EventSink {
 public:
  explicit RingBuffer(std::size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  void on_step(const std::shared_ptr<const StepRecord>& record) override;
  std::uint64_t drain(std::vector<std::shared_ptr<const StepRecord>>& target) override;

 private:
  const std::size_t capacity_;
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<const StepRecord>> waiting_;
  std::size_t begin_ = 0;  // index of the oldest once the vector is full and wraps
  std::uint64_t lost_ = 0;
};

// Forwards the engine's records to readers that come and go. The list changes on any thread;
// records are forwarded on the engine's.
class EventFanout : public EventSink {
 public:
  void add(std::shared_ptr<EventSink> sink);
  void remove(const std::shared_ptr<EventSink>& sink);
  void add_weak(std::weak_ptr<EventSink> sink);  // forgotten once it expires

  void on_step(const std::shared_ptr<const StepRecord>& record) override;
  void on_arrival(const ArrivalRecord& record) override;
  void on_abort(const AbortRecord& record) override;
  void on_reconfigure(const ReconfigureRecord& record) override;
  void on_cache_reset(const CacheResetRecord& record) override;

 private:
  template <typename Call>
  void each(Call call);

  std::mutex
      mutex_;  // guards sinks_ and weak_; held while records are forwarded, so remove() is final
  std::vector<std::shared_ptr<EventSink>> sinks_;
  std::vector<std::weak_ptr<EventSink>> weak_;
};

}  // namespace quire
