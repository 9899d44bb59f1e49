#include "engine/step_ring.h"

#include <algorithm>

namespace quire {

void RingBuffer::on_step(const std::shared_ptr<const StepRecord>& record) {
  std::shared_ptr<const StepRecord> dropped;  // destroyed outside the lock
  const std::lock_guard lock(mutex_);
  if (waiting_.size() < capacity_) {
    waiting_.push_back(record);
    return;
  }
  dropped = std::exchange(waiting_[begin_], record);
  begin_ = (begin_ + 1) % capacity_;
  ++lost_;
}

std::uint64_t RingBuffer::drain(std::vector<std::shared_ptr<const StepRecord>>& target) {
  std::vector<std::shared_ptr<const StepRecord>> taken;
  std::size_t begin = 0;
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(waiting_);
    begin = std::exchange(begin_, 0);
    lost = std::exchange(lost_, 0);
  }
  std::rotate(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(begin), taken.end());
  std::move(taken.begin(), taken.end(), std::back_inserter(target));
  return lost;
}

void EventFanout::add(std::shared_ptr<EventSink> sink) {
  const std::lock_guard lock(mutex_);
  sinks_.push_back(std::move(sink));
}

void EventFanout::remove(const std::shared_ptr<EventSink>& sink) {
  const std::lock_guard lock(mutex_);
  std::erase(sinks_, sink);
}

void EventFanout::add_weak(std::weak_ptr<EventSink> sink) {
  const std::lock_guard lock(mutex_);
  weak_.push_back(std::move(sink));
}

template <typename Call>
void EventFanout::each(Call call) {
  const std::lock_guard lock(mutex_);
  for (const auto& sink : sinks_) call(*sink);
  std::erase_if(weak_, [&](const std::weak_ptr<EventSink>& weak) {
    const auto sink = weak.lock();
    if (sink) call(*sink);
    return !sink;
  });
}

void EventFanout::on_step(const std::shared_ptr<const StepRecord>& record) {
  each([&](EventSink& sink) { sink.on_step(record); });
}
void EventFanout::on_arrival(const ArrivalRecord& record) {
  each([&](EventSink& sink) { sink.on_arrival(record); });
}
void EventFanout::on_abort(const AbortRecord& record) {
  each([&](EventSink& sink) { sink.on_abort(record); });
}
void EventFanout::on_reconfigure(const ReconfigureRecord& record) {
  each([&](EventSink& sink) { sink.on_reconfigure(record); });
}
void EventFanout::on_cache_reset(const CacheResetRecord& record) {
  each([&](EventSink& sink) { sink.on_cache_reset(record); });
}

}  // namespace quire
