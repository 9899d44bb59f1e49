#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>

#include "engine/engine.h"
#include "engine/model_host.h"
#include "engine/server/http_error.h"

namespace quire {

// Makes `target` what both say: text and tokens in order, the rest as in `update`.
void merge(GenerationUpdate& target, const GenerationUpdate& update);

// Between the engine's thread and a connection's: updates are merged until they are taken, so the
// engine never waits for a client. A listener that left `max_unread_bytes` untaken is given up.
class UpdateQueue : public RequestSink {
 public:
  explicit UpdateQueue(std::size_t max_unread_bytes) : max_unread_bytes_(max_unread_bytes) {}

  bool on_update(const GenerationUpdate& update) override;  // engine thread

  // Everything new, merged into one update: text and tokens in order, the rest as of the last.
  // Waits for text, tokens or the end; nullopt after `timeout_ms`, or when only progress was made.
  std::optional<GenerationUpdate> take(int timeout_ms);
  void close();  // nobody listens any more

 private:
  const std::size_t max_unread_bytes_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable news_;
  GenerationUpdate pending_;
  std::size_t unread_bytes_ = 0;
  bool has_news_ = false, closed_ = false;
};

// One request running in the engine on behalf of a connection. Keeps its model alive; dropping it
// before the end aborts the request. Connection thread only.
class Generation {
 public:
  // Refused at once with what the client should be told, or running.
  static std::variant<std::shared_ptr<Generation>, ApiError> start(
      std::shared_ptr<HostedModel> model, GenerationRequest request, std::size_t max_unread_bytes,
      std::atomic<int>& active_count);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  std::optional<GenerationUpdate> next(int timeout_ms);
  void abort();
  const HostedModel& model() const { return *model_; }
  RequestId id() const { return id_; }

 private:
  Generation(std::shared_ptr<HostedModel> model, std::shared_ptr<UpdateQueue> queue, RequestId id,
             std::atomic<int>& active_count);

  std::shared_ptr<HostedModel> model_;
  std::shared_ptr<UpdateQueue> queue_;  // the engine shares it; it must not keep the model alive
  RequestId id_;
  std::atomic<int>& active_count_;
  bool finished_ = false;
};

}  // namespace quire
