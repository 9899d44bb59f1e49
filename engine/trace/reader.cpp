#include "engine/trace/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/trace/event_codec.h"
#include "engine/trace/plausible.h"

namespace quire {

bool TraceCursor::next(TraceEvent& event) {
  std::string_view left = bytes_;
  TraceFrame frame;
  while (!ended_ && take_frame(left, frame)) {
    if (frame.kind == FrameKind::kEnd) {
      bytes_ = left;
      ended_ = true;
      return false;
    }
    const bool known = frame.kind >= FrameKind::kArrival && frame.kind < FrameKind::kEnd;
    if (known && !decode(frame, event)) return false;
    bytes_ = left;
    if (known) return true;
  }
  return false;
}

bool TraceCursor::decode(const TraceFrame& frame, TraceEvent& event) {
  if (!started_ && frame.kind != FrameKind::kKeyframe) return false;
  const auto whole = [&](auto&& record) {
    return quire::decode(frame.payload, record) && plausible(record, *header_);
  };
  switch (frame.kind) {
    case FrameKind::kArrival:
      return whole(event.emplace<ArrivalRecord>());
    case FrameKind::kAbort:
      return whole(event.emplace<AbortRecord>());
    case FrameKind::kReconfigure:
      return whole(event.emplace<ReconfigureRecord>());
    case FrameKind::kCacheReset:
      return whole(event.emplace<CacheResetRecord>());
    case FrameKind::kStep: {
      auto& record = event.emplace<StepRecord>();
      if (!decoder_.decode(frame.payload, record) || !plausible(record, *header_)) return false;
      step_ = record.step;
      return true;
    }
    default: {
      auto& snapshot = event.emplace<EngineSnapshot>();
      if (!whole(snapshot) || (started_ && snapshot.step != step_)) return false;
      decoder_.restart(snapshot);
      step_ = snapshot.step;
      return started_ = true;
    }
  }
}

Result<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path) {
  std::unique_ptr<TraceReader> reader(new TraceReader);
  QUIRE_TRY(reader->file_, MappedFile::open(path));
  const std::string_view bytes = reader->file_->bytes();
  std::string label = reader->file_->label();
  return read(std::move(reader), bytes, std::move(label));
}

Result<std::unique_ptr<TraceReader>> TraceReader::parse(std::string_view bytes, std::string label) {
  return read(std::unique_ptr<TraceReader>(new TraceReader), bytes, std::move(label));
}

Result<std::unique_ptr<TraceReader>> TraceReader::read(std::unique_ptr<TraceReader> reader,
                                                       std::string_view bytes, std::string label) {
  QUIRE_TRY(reader->header_, take_header(bytes, label));
  reader->bytes_ = bytes;
  reader->scan(label);
  if (reader->keyframes_.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      label + " breaks off, or is damaged, before its first step.");
  return reader;
}

// Reads everything once: finds the keyframes and where what is whole ends.
void TraceReader::scan(const std::string& label) {
  TraceCursor cursor(bytes_, header_);
  TraceEvent event;
  std::size_t offset = 0;
  while (cursor.next(event)) {
    if (std::holds_alternative<StepRecord>(event)) ++num_steps_;
    if (const auto* snapshot = std::get_if<EngineSnapshot>(&event)) {
      if (keyframes_.empty())
        starts_fresh_ = snapshot->step == 0 && snapshot->requests.empty() &&
                        snapshot->totals == EngineCounters{};
      keyframes_.push_back({snapshot->step, offset});
    }
    offset = bytes_.size() - cursor.bytes_.size();
  }
  const std::size_t whole = bytes_.size() - cursor.bytes_.size();
  if (!cursor.ended_)
    damage_ = fmt::format(
        "{} {} after {} whole steps; what follows is not read.", label,
        cursor.bytes_.empty() ? "was not closed properly and ends" : "is cut off or damaged",
        num_steps_);
  bytes_ = bytes_.substr(0, whole);
}

TraceCursor TraceReader::seek(std::uint64_t step) const {
  const auto behind = std::ranges::partition_point(
      keyframes_, [&](const Keyframe& keyframe) { return keyframe.step < step; });
  const Keyframe& chosen = behind == keyframes_.begin() ? keyframes_.front() : *(behind - 1);
  return {bytes_.substr(chosen.offset), header_};
}

}  // namespace quire
