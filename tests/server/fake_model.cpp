#include "tests/server/fake_model.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "engine/text/text_output.h"

namespace quire::test {
namespace {

constexpr TokenId kEos = 257;

class FakeRunner : public Runner {
 public:
  explicit FakeRunner(std::shared_ptr<Behaviour> behaviour) : behaviour_(std::move(behaviour)) {}

  double move_blocks(std::span<const BlockMove>) override { return 0; }
  Handle launch(const Batch& batch, std::span<const SamplingRow> rows,
                const std::atomic<bool>& cancel) override {
    result_ = {};
    if (behaviour_->fail.exchange(false)) throw DeviceError("The fake device failed.");
    const bool long_step = batch.input_ids.size() > Behaviour::kManyTokens;
    if (long_step) ++behaviour_->prefills;
    result_.cancelled = !work(long_step ? behaviour_->prefill_ms : behaviour_->step_ms, cancel);
    if (result_.cancelled) {
      ++behaviour_->cancelled;
      return 0;
    }
    for (const auto& row : rows) result_.rows.push_back(sample(row));
    return 0;
  }
  StepResult collect(Handle) override { return std::move(result_); }
  int vocab_size() const override { return 260; }

 private:
  static bool work(int milliseconds, const std::atomic<bool>& cancel) {
    for (int i = 0; i < milliseconds && !cancel; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return !cancel;
  }
  SampledRow sample(const SamplingRow& row) const {
    SampledRow sampled;
    const auto place = static_cast<std::size_t>(row.output_index);
    const std::string& reply = behaviour_->reply;
    if (reply.empty()) {
      sampled.token = row.token_ids[place % static_cast<std::size_t>(row.num_prompt_tokens)];
    } else {
      sampled.token = place < reply.size() ? static_cast<unsigned char>(reply[place]) : kEos;
    }
    sampled.logprob = -0.5f;
    for (int i = 0; i < row.params->logprobs.value_or(0); ++i) {
      sampled.top.push_back({'a' + i, -1.0f - static_cast<float>(i)});
    }
    return sampled;
  }

  std::shared_ptr<Behaviour> behaviour_;
  StepResult result_;
};

class FakeTemplate : public ChatTemplate {
 public:
  Result<RenderedPrompt> render(const std::vector<ChatMessage>&,
                                const ChatTemplateOptions&) const override {
    return make_error(ErrorCode::kInvalidArgument, "Only JSON is rendered here.");
  }
  Result<RenderedPrompt> render_json(std::string_view messages_json,
                                     const ChatTemplateOptions& options) const override {
    RenderedPrompt prompt;
    const auto own = [&prompt](const std::string& text) {
      auto& ranges = prompt.template_ranges;
      if (ranges.empty() || ranges.back().end != prompt.text.size()) {
        ranges.push_back({prompt.text.size(), prompt.text.size()});
      }
      prompt.text += text;
      ranges.back().end = prompt.text.size();
    };
    const auto document = QJsonDocument::fromJson(
        QByteArray(messages_json.data(), static_cast<qsizetype>(messages_json.size())));
    for (const auto& message : document.array()) {
      const std::string content = message.toObject()["content"].toString().toStdString();
      if (content == "raise") {
        return make_error(ErrorCode::kInvalidArgument, "The template refuses this.");
      }
      if (content == "throw") throw std::runtime_error("secret /home/someone at 0x7fffdead");
      own("<|im_start|>");
      prompt.text += message.toObject()["role"].toString().toStdString();
      own("\n");
      prompt.text += content;
      own("<|im_end|>\n");
    }
    if (options.add_generation_prompt) own("<|im_start|>assistant\n");
    return prompt;
  }
  const std::string& source() const override { return source_; }

 private:
  std::string source_ = "a fake template";
};

struct FakeModel : HostedModel {
  std::unique_ptr<Tokenizer> bytes = make_byte_tokenizer();
  FakeTemplate chat;
  std::unique_ptr<Engine> running;
};

}  // namespace

EngineConfig fake_config() {
  EngineConfig config;
  config.num_blocks = 64;
  config.max_model_len = 1024;
  config.max_num_batched_tokens = 2048;
  return config;
}

std::shared_ptr<HostedModel> make_fake_model(std::shared_ptr<Behaviour> behaviour,
                                             EngineConfig config, bool paused) {
  auto model = std::make_shared<FakeModel>();
  model->id = "fake";
  model->name = "A fake model";
  model->path = "/somewhere/fake.gguf";
  model->config.vocab_size = 260;
  model->config.context_length = config.max_model_len;
  model->tokenizer = model->bytes.get();
  model->chat_template = &model->chat;
  model->running =
      Engine::create({config, paused, {kEos}}, std::make_unique<FakeRunner>(std::move(behaviour)),
                     std::make_unique<TextOutputProcessor>(*model->bytes));
  model->engine = model->running.get();
  model->memory = {
      .program = 1000, .weights = 2000, .kv_pool = 3000, .buffers = 4000, .resident = 9900};
  return model;
}

void FakeHost::set(std::shared_ptr<HostedModel> model, HostState state) {
  std::list<Listener> listeners;
  {
    const std::lock_guard lock(mutex_);
    model_ = std::move(model);
    status_.state = state;
    listeners = listeners_;
  }
  for (const auto& listener : listeners) listener(status());
}

Result<std::shared_ptr<HostedModel>> FakeHost::load_and_wait(std::string, std::string, LoadOptions,
                                                             const ProgressCallback&) {
  return make_error(ErrorCode::kNotReady, "The fake host loads nothing.");
}

std::shared_ptr<HostedModel> FakeHost::current() const {
  const std::lock_guard lock(mutex_);
  return status_.state == HostState::kReady ? model_ : nullptr;
}

HostStatus FakeHost::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::shared_ptr<void> FakeHost::subscribe(Listener listener) {
  const std::lock_guard lock(mutex_);
  const auto place = listeners_.insert(listeners_.end(), std::move(listener));
  return std::shared_ptr<void>(static_cast<void*>(this), [this, place](void*) {
    const std::lock_guard unsubscribing(mutex_);
    listeners_.erase(place);
  });
}

}  // namespace quire::test
