#include "engine/trace/recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>

#include "engine/engine.h"
#include "engine/trace/event_codec.h"
#include "engine/trace/wire.h"

namespace quire {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;
constexpr double kFlushSeconds = 1;

std::string reason_of(int error_number) {
  return std::strerror(error_number);
}

bool is_recording(int descriptor) {
  char head[kTraceMagic.size()];
  const ssize_t size = pread(descriptor, head, sizeof head, 0);
  return size == 0 || (size == static_cast<ssize_t>(sizeof head) &&
                       std::string_view(head, sizeof head) == kTraceMagic);
}

// An empty file only its owner can read. A file that is replaced may have had another mode.
Result<int> open_file(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return make_error(ErrorCode::kIo, fmt::format("'{}' cannot be recorded to: {}.", path, why));
  };
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  if (descriptor < 0) return refuse(reason_of(errno));
  struct stat status {};
  std::string why;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode))
    why = "it is not a regular file";
  else if (!is_recording(descriptor))
    why = "it exists and is not a recording; choose another name";
  else if (fchmod(descriptor, 0600) != 0 || ftruncate(descriptor, 0) != 0)
    why = reason_of(errno);
  if (why.empty()) return descriptor;
  close(descriptor);
  return refuse(why);
}

}  // namespace

TraceRecorder::TraceRecorder(std::string path, int descriptor, Options options)
    : path_(std::move(path)), options_(std::move(options)), descriptor_(descriptor) {}

TraceRecorder::~TraceRecorder() {
  finish();
}

Result<std::shared_ptr<TraceRecorder>> TraceRecorder::create(const std::string& path,
                                                             Options options,
                                                             const EngineSnapshot& first) {
  if (options.header.config.num_blocks > kMaxTraceBlocks ||
      options.header.config.num_swap_blocks > kMaxTraceBlocks)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("A pool of more than {} blocks cannot be recorded; use fewer.",
                                  kMaxTraceBlocks));
  QUIRE_TRY(const int descriptor, open_file(path));
  std::shared_ptr<TraceRecorder> recorder(new TraceRecorder(path, descriptor, std::move(options)));
  {
    const std::lock_guard lock(recorder->mutex_);
    recorder->buffer_ = encode_header(recorder->options_.header);
    recorder->keyframe(first);
    recorder->flush();
  }
  if (std::string error = recorder->error(); !error.empty())
    return make_error(ErrorCode::kIo, std::move(error));
  return recorder;
}

void TraceRecorder::on_step(const std::shared_ptr<const StepRecord>& record) {
  {
    const std::lock_guard lock(mutex_);
    if (descriptor_ < 0) return;
    payload_.clear();
    encoder_.encode(record, payload_);
    append(FrameKind::kStep, record->times.start_s);
    ++num_steps_;
    if (++steps_since_keyframe_ < kKeyframeEvery || keyframe_asked_ || !options_.request_snapshot)
      return;
    keyframe_asked_ = true;
  }
  options_.request_snapshot([weak = weak_from_this()](const EngineSnapshot& snapshot) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    self->keyframe(snapshot);
  });
}

template <typename Record>
void TraceRecorder::append_event(FrameKind kind, const Record& record, double time_s) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return;
  payload_.clear();
  encode(record, payload_);
  append(kind, time_s);
}

void TraceRecorder::on_arrival(const ArrivalRecord& record) {
  append_event(FrameKind::kArrival, record, record.time_s);
}

void TraceRecorder::on_abort(const AbortRecord& record) {
  append_event(FrameKind::kAbort, record, record.time_s);
}

void TraceRecorder::on_reconfigure(const ReconfigureRecord& record) {
  append_event(FrameKind::kReconfigure, record, record.time_s);
}

void TraceRecorder::on_cache_reset(const CacheResetRecord& record) {
  append_event(FrameKind::kCacheReset, record, record.time_s);
}

void TraceRecorder::keyframe(const EngineSnapshot& snapshot) {
  if (descriptor_ < 0) return;
  keyframe_asked_ = false;
  steps_since_keyframe_ = 0;
  payload_.clear();
  encode(snapshot, payload_);
  append(FrameKind::kKeyframe, flushed_s_);
  encoder_.restart(snapshot);
}

void TraceRecorder::append(FrameKind kind, double time_s) {
  if (payload_.size() > kMaxTracePayloadBytes) return stop("one record is too large");
  append_frame(buffer_, kind, payload_);
  const double since_s = time_s - flushed_s_;
  if (buffer_.size() < kBufferBytes && since_s >= 0 && since_s < kFlushSeconds) return;
  flush();
  flushed_s_ = time_s;
}

void TraceRecorder::flush() {
  std::string_view left = buffer_;
  while (descriptor_ >= 0 && !left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) stop(reason_of(written < 0 ? errno : ENOSPC));
    if (written > 0) left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void TraceRecorder::stop(const std::string& reason) {
  close(descriptor_);
  descriptor_ = -1;
  error_ = fmt::format("Recording to '{}' stopped: {}.", path_, reason);
  if (options_.on_stopped) options_.on_stopped(error_);
}

void TraceRecorder::finish() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0) return;
  payload_.clear();
  WireWriter(payload_).varint(num_steps_);
  append_frame(buffer_, FrameKind::kEnd, payload_);
  flush();
  if (descriptor_ < 0) return;
  close(descriptor_);
  descriptor_ = -1;
}

std::string TraceRecorder::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Result<std::shared_ptr<TraceRecorder>> record_engine(
    Engine& engine, const std::string& path, TraceHeader header,
    std::function<void(const std::string& sentence)> on_stopped) {
  using Made = Result<std::shared_ptr<TraceRecorder>>;
  auto made = std::make_shared<std::promise<Made>>();
  auto future = made->get_future();
  // On the engine thread, so that no record falls between the snapshot and the sink.
  engine.request_snapshot([&engine, made, path, header = std::move(header),
                           on_stopped = std::move(on_stopped)](EngineSnapshot first) mutable {
    header.config = engine.config();
    header.vocab_size = engine.vocab_size();
    auto recorder = TraceRecorder::create(
        path,
        {std::move(header),
         [&engine](std::function<void(const EngineSnapshot&)> done) {
           engine.request_snapshot(
               [done = std::move(done)](const EngineSnapshot& snapshot) { done(snapshot); });
         },
         std::move(on_stopped)},
        first);
    if (recorder.ok()) engine.add_sink(*recorder);
    made->set_value(std::move(recorder));
  });
  try {
    return future.get();
  } catch (const std::future_error&) {  // the engine ended first and dropped the request
    return make_error(ErrorCode::kNotReady, "The engine has stopped.");
  }
}

}  // namespace quire
