#include "engine/server/generation.h"

#include <chrono>

namespace quire {
namespace {

std::size_t bytes_of(const GenerationUpdate& update) {
  std::size_t bytes = update.text.size();
  for (const auto& row : update.tokens) {
    bytes += sizeof(row) + row.top.size() * sizeof(TokenLogprob);
  }
  return bytes;
}

}  // namespace

void merge(GenerationUpdate& target, const GenerationUpdate& update) {
  std::string text = std::move(target.text) + update.text;
  std::vector<SampledRow> tokens = std::move(target.tokens);
  tokens.insert(tokens.end(), update.tokens.begin(), update.tokens.end());
  target = update;
  target.text = std::move(text);
  target.tokens = std::move(tokens);
}

bool UpdateQueue::on_update(const GenerationUpdate& update) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  merge(pending_, update);
  unread_bytes_ += bytes_of(update);
  if (unread_bytes_ > max_unread_bytes_ && update.state != GenerationState::kFinished) {
    closed_ = true;
    pending_.state = GenerationState::kFinished;
    pending_.finish_reason = FinishReason::kAborted;
  }
  has_news_ = !pending_.text.empty() || !pending_.tokens.empty() ||
              pending_.state == GenerationState::kFinished;
  if (has_news_) news_.notify_one();
  return !closed_;
}

std::optional<GenerationUpdate> UpdateQueue::take(int timeout_ms) {
  std::unique_lock lock(mutex_);
  if (!news_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return has_news_; })) {
    return std::nullopt;
  }
  GenerationUpdate update = std::move(pending_);
  pending_ = GenerationUpdate{};
  unread_bytes_ = 0;
  has_news_ = false;
  return update;
}

void UpdateQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

std::variant<std::shared_ptr<Generation>, ApiError> Generation::start(
    std::shared_ptr<HostedModel> model, GenerationRequest request, std::size_t max_unread_bytes,
    std::atomic<int>& active_count) {
  auto queue = std::make_shared<UpdateQueue>(max_unread_bytes);
  const std::size_t num_prompt_tokens = request.prompt_token_ids.size();
  auto submitted = model->engine->submit(std::move(request), queue);
  if (!submitted.ok()) {
    if (submitted.error().code == ErrorCode::kContextLengthExceeded) {
      return context_length_error(num_prompt_tokens, model->engine->config().effective_context());
    }
    return to_api_error(submitted.error());
  }
  return std::shared_ptr<Generation>(
      new Generation(std::move(model), std::move(queue), *submitted, active_count));
}

Generation::Generation(std::shared_ptr<HostedModel> model, std::shared_ptr<UpdateQueue> queue,
                       RequestId id, std::atomic<int>& active_count)
    : model_(std::move(model)), queue_(std::move(queue)), id_(id), active_count_(active_count) {
  ++active_count_;
}

Generation::~Generation() {
  abort();
  --active_count_;
}

std::optional<GenerationUpdate> Generation::next(int timeout_ms) {
  auto update = queue_->take(timeout_ms);
  if (update && update->state == GenerationState::kFinished) finished_ = true;
  return update;
}

void Generation::abort() {
  if (finished_) return;
  finished_ = true;
  queue_->close();
  model_->engine->abort(id_);
}

}  // namespace quire
