#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "engine/model_host.h"

// A model host whose engine does what a test tells it to: requests are kept, and the test sends
// their updates.
namespace quire::test {

// One token per byte of text; "<|x|>" is one control token (300) where specials may be matched.
class FakeTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < text.size();) {
      if (text.substr(i, 5) == "<|x|>" && allowed(options, i, i + 5)) {
        ids.push_back(300);
        i += 5;
      } else {
        ids.push_back(static_cast<unsigned char>(text[i++]));
      }
    }
    return ids;
  }
  std::string_view token_bytes(TokenId) const override { return "a"; }
  std::string_view token_text(TokenId) const override { return "<s>"; }
  TokenId find(std::string_view) const override { return -1; }
  bool is_control(TokenId id) const override { return id >= 256; }
  int vocab_size() const override { return 301; }
  TokenId bos_id() const override { return -1; }
  TokenId eos_id() const override { return 300; }
  bool adds_bos() const override { return false; }
  const std::vector<TokenId>& end_ids() const override { return ends_; }
  bool strips_leading_space() const override { return false; }
  std::string description() const override { return "bytes"; }

 private:
  static bool allowed(const EncodeOptions& options, std::size_t begin, std::size_t end) {
    if (options.specials != EncodeOptions::Specials::kRanges) return true;
    return std::any_of(options.special_ranges.begin(), options.special_ranges.end(),
                       [&](const ByteRange& r) { return r.begin <= begin && end <= r.end; });
  }
  std::vector<TokenId> ends_{300};
};

// Writes "<|x|>role:content" for each turn.
class FakeTemplate : public ChatTemplate {
 public:
  Result<RenderedPrompt> render(const std::vector<ChatMessage>& messages,
                                const ChatTemplateOptions&) const override {
    RenderedPrompt prompt;
    for (const ChatMessage& message : messages) {
      const std::size_t begin = prompt.text.size();
      prompt.text += "<|x|>" + message.role + ":";
      prompt.template_ranges.push_back({begin, prompt.text.size()});
      prompt.text += message.content;
    }
    return prompt;
  }
  Result<RenderedPrompt> render_json(std::string_view, const ChatTemplateOptions&) const override {
    return make_error(ErrorCode::kInvalidArgument, "not used");
  }
  const std::string& source() const override { return source_; }

 private:
  std::string source_;
};

class FakeRing : public StepRing {
 public:
  std::uint64_t drain(std::vector<std::shared_ptr<const StepRecord>>& target) override {
    const std::lock_guard lock(mutex);
    target.insert(target.end(), records.begin(), records.end());
    records.clear();
    return std::exchange(lost, 0);
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<const StepRecord>> records;
  std::uint64_t lost = 0;
};

class FakeEngine : public Engine {
 public:
  struct Submitted {
    GenerationRequest request;
    std::shared_ptr<RequestSink> sink;
    bool aborted = false;
  };

  FakeEngine() {
    config_.num_blocks = 64;
    config_.max_model_len = 512;
  }

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override {
    const std::lock_guard lock(mutex_);
    QUIRE_RETURN_IF_ERROR(check(request.prompt_token_ids.size()));
    requests_.push_back({std::move(request), std::move(sink)});
    return RequestId{static_cast<std::int64_t>(requests_.size()) - 1};
  }
  void abort(RequestId id) override {
    const std::lock_guard lock(mutex_);
    requests_[static_cast<std::size_t>(index(id))].aborted = true;
  }
  void pause() override { paused_ = true; }
  void resume() override { paused_ = false; }
  void step(int n) override { steps_ += n; }
  bool paused() const override { return paused_; }
  Status reconfigure(const EngineConfig& config) override {
    if (config.num_blocks != config_.num_blocks) {
      return make_error(ErrorCode::kInvalidArgument, "The pool cannot change while running.");
    }
    config_ = config;
    return Ok{};
  }
  EngineConfig config() const override { return config_; }
  int vocab_size() const override { return 301; }
  int num_unfinished() const override { return 0; }
  void request_snapshot(std::function<void(EngineSnapshot)> done) override {
    EngineSnapshot snapshot;
    snapshot.step = 7;
    done(snapshot);
  }
  EngineSnapshot snapshot() override { return {}; }
  std::shared_ptr<StepRing> open_ring(std::size_t) override {
    auto opened = std::make_shared<FakeRing>();
    ring = opened;
    return opened;
  }
  void add_sink(std::shared_ptr<EventSink> sink) override { sinks.push_back(std::move(sink)); }
  void remove_sink(const std::shared_ptr<EventSink>& sink) override { std::erase(sinks, sink); }
  void reset_prefix_cache() override {}
  bool drain(double) override { return true; }
  std::string failure() const override { return {}; }
  double now() const override { return 1000; }
  std::uint64_t steps_completed() const override { return 0; }

  int count() {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(requests_.size());
  }
  Submitted at(int i) {
    const std::lock_guard lock(mutex_);
    return requests_[static_cast<std::size_t>(i)];
  }
  bool send(int i, const GenerationUpdate& update) { return at(i).sink->on_update(update); }
  bool sendText(int i, const std::string& text) {
    GenerationUpdate update;
    update.state = GenerationState::kDecoding;
    update.text = text;
    update.num_prompt_tokens = 20;
    update.num_cached_tokens = 16;
    update.num_output_tokens = 5;
    update.first_token_s = 0.5;
    update.last_token_s = 1.5;
    return send(i, update);
  }
  bool finish(int i, FinishReason reason, const std::string& error = {}) {
    GenerationUpdate update;
    update.state = GenerationState::kFinished;
    update.finish_reason = reason;
    update.error = error;
    update.num_prompt_tokens = 20;
    update.num_cached_tokens = 16;
    update.num_output_tokens = 5;
    update.first_token_s = 0.5;
    update.last_token_s = 1.5;
    return send(i, update);
  }

  std::weak_ptr<FakeRing> ring;
  std::vector<std::shared_ptr<EventSink>> sinks;

 private:
  Status check(std::size_t tokens) const {
    if (tokens < static_cast<std::size_t>(config_.effective_context())) return Ok{};
    return make_error(ErrorCode::kContextLengthExceeded, "The prompt does not fit.");
  }

  std::mutex mutex_;
  std::vector<Submitted> requests_;
  EngineConfig config_;
  bool paused_ = false;
  int steps_ = 0;
};

struct FakeModel : HostedModel {
  FakeModel() {
    id = name = "fake";
    description = "a fake model";
    backend_description = "fake backend";
    tokenizer = &fakeTokenizer;
    chat_template = &fakeTemplate;
    engine = &fakeEngine;
  }
  FakeTokenizer fakeTokenizer;
  FakeTemplate fakeTemplate;
  FakeEngine fakeEngine;
};

class FakeHost : public ModelHost {
 public:
  void load(std::string path, std::string id, LoadOptions, double) override {
    HostStatus status;
    status.state = HostState::kLoading;
    status.model = id;
    {
      const std::lock_guard lock(mutex_);
      loads_.push_back({std::move(path), std::move(id)});
    }
    set(status, nullptr);
  }
  Result<std::shared_ptr<HostedModel>> load_and_wait(std::string, std::string, LoadOptions,
                                                     const ProgressCallback&) override {
    return make_error(ErrorCode::kNotReady, "not used");
  }
  void cancel_load() override { ++cancels; }
  void unload() override {}
  std::shared_ptr<HostedModel> current() const override {
    const std::lock_guard lock(mutex_);
    return model_;
  }
  HostStatus status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  LoadOptions options() const override { return {}; }
  std::shared_ptr<void> subscribe(Listener listener) override {
    listener_ = std::move(listener);
    return std::shared_ptr<void>(static_cast<void*>(this), [this](void*) { listener_ = {}; });
  }
  void shutdown(double) override {}

  void set(HostStatus status, std::shared_ptr<FakeModel> model) {
    {
      const std::lock_guard lock(mutex_);
      status_ = status;
      model_ = std::move(model);
    }
    if (listener_) listener_(status);
  }
  std::shared_ptr<FakeModel> makeReady() {
    auto model = std::make_shared<FakeModel>();
    HostStatus status;
    status.state = HostState::kReady;
    status.model = "fake";
    set(status, model);
    return model;
  }

  std::vector<std::pair<std::string, std::string>> loaded() const {
    const std::lock_guard lock(mutex_);
    return loads_;
  }

  std::atomic<int> cancels{0};

 private:
  mutable std::mutex mutex_;
  HostStatus status_;
  std::shared_ptr<FakeModel> model_;
  std::vector<std::pair<std::string, std::string>> loads_;
  Listener listener_;
};

}  // namespace quire::test
