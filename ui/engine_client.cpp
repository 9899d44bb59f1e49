#include "ui/engine_client.h"

#include <QMetaObject>
#include <QThread>
#include <atomic>
#include <chrono>
#include <mutex>

#include "ui/prompt.h"

namespace quire {
namespace {

constexpr int kFlushMs = 16;  // answers are delivered at most ~60 times a second
constexpr int kFrameMs = 33;  // ~30 frames a second
constexpr std::size_t kRingRecords = 4096;
constexpr std::size_t kMaxArrivals = 4096;  // between two frames; more are not worth showing

QString text(const std::string& value) {
  return QString::fromStdString(value);
}

std::shared_ptr<const ModelInfo> describe(const HostedModel& hosted) {
  auto info = std::make_shared<ModelInfo>();
  info->id = text(hosted.id);
  info->path = text(hosted.path);
  info->name = text(hosted.name);
  info->description = text(hosted.description);
  info->backend = text(hosted.backend_description);
  info->templateNote = text(hosted.template_note);
  info->config = hosted.config;
  info->numParameters = hosted.num_parameters;
  info->memory = hosted.memory;
  if (hosted.engine != nullptr) info->engine = hosted.engine->config();
  return info;
}

double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Joins a newer update to one that was not delivered yet.
void merge(AnswerUpdate& target, AnswerUpdate&& update) {
  update.text = target.text + update.text;
  target = std::move(update);
}

}  // namespace

// Other threads hold this, never the client: `post` does nothing once the client is gone.
struct EngineClient::Gate {
  std::mutex mutex;
  EngineClient* client = nullptr;

  template <typename Work>
  bool post(Work work) {
    const std::lock_guard lock(mutex);
    if (client == nullptr) return false;
    QMetaObject::invokeMethod(
        client, [target = client, work = std::move(work)]() mutable { work(*target); },
        Qt::QueuedConnection);
    return true;
  }
};

struct EngineClient::Answer {
  std::mutex mutex;  // guards the members below
  AnswerUpdate pending;
  bool dirty = false;
  bool aborted = false;
  RequestId request = kNoRequest;
  std::weak_ptr<HostedModel> hosted;

  // True when the reader must be woken.
  bool put(AnswerUpdate update) {
    const std::lock_guard lock(mutex);
    merge(pending, std::move(update));
    return !std::exchange(dirty, true);
  }

  // Under the lock, so that an abort comes before (and is kCancelled here) or finds the request.
  Status submitTo(Engine& engine, GenerationRequest generation, std::shared_ptr<RequestSink> sink) {
    const std::lock_guard lock(mutex);
    if (aborted) return make_error(ErrorCode::kCancelled, {});
    QUIRE_TRY(request, engine.submit(std::move(generation), std::move(sink)));
    return Ok{};
  }
};

class EngineClient::AnswerSink : public RequestSink {
 public:
  AnswerSink(std::shared_ptr<Gate> gate, std::shared_ptr<Answer> answer)
      : m_gate(std::move(gate)), m_answer(std::move(answer)) {}

  bool on_update(const GenerationUpdate& update) override {
    AnswerUpdate value;
    value.state = update.state;
    value.text = text(update.text);
    value.finishReason = update.finish_reason;
    value.stopReason = text(update.stop_reason);
    value.error = text(update.error);
    value.queuePosition = update.queue_position;
    value.promptTokens = update.num_prompt_tokens;
    value.computedTokens = update.num_computed_tokens;
    value.cachedTokens = update.num_cached_tokens;
    value.outputTokens = update.num_output_tokens;
    value.preemptions = update.num_preemptions;
    value.firstTokenSeconds = update.first_token_s;
    value.lastTokenSeconds = update.last_token_s;
    if (!m_answer->put(std::move(value))) return true;
    return m_gate->post([](EngineClient& client) { client.scheduleFlush(); });
  }

 private:
  std::shared_ptr<Gate> m_gate;
  std::shared_ptr<Answer> m_answer;
};

class EngineClient::ArrivalSink : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>&) override {}
  void on_arrival(const ArrivalRecord& record) override {
    const std::lock_guard lock(m_mutex);
    if (m_arrivals.size() >= kMaxArrivals) return;
    m_arrivals.push_back({record.request, text(record.label),
                          static_cast<int>(record.prompt_token_ids.size()), record.time_s});
  }
  std::vector<ArrivalInfo> take() {
    const std::lock_guard lock(m_mutex);
    return std::exchange(m_arrivals, {});
  }

 private:
  std::mutex m_mutex;
  std::vector<ArrivalInfo> m_arrivals;
};

EngineClient::EngineClient(std::shared_ptr<ModelHost> host, QObject* parent)
    : QObject(parent),
      m_host(std::move(host)),
      m_gate(std::make_shared<Gate>()),
      m_measureTicket(std::make_shared<std::atomic<quint64>>(0)) {
  qRegisterMetaType<HostStatus>();
  qRegisterMetaType<AnswerUpdate>();
  qRegisterMetaType<EngineFrame>();
  qRegisterMetaType<PromptSize>();
  m_gate->client = this;
  for (QThreadPool* pool : {&m_commands, &m_prompts, &m_counting}) pool->setMaxThreadCount(1);
  m_flushTimer.setSingleShot(true);
  m_flushTimer.setInterval(kFlushMs);
  connect(&m_flushTimer, &QTimer::timeout, this, [this] {
    if (std::exchange(m_flushWanted, false)) flushAnswers();
  });
  m_frameTimer.setInterval(kFrameMs);
  connect(&m_frameTimer, &QTimer::timeout, this, &EngineClient::drainRing);
  if (!m_host) return;
  m_subscription = m_host->subscribe([gate = m_gate](const HostStatus& status) {
    gate->post([status](EngineClient& client) { client.receiveStatus(status); });
  });
  m_status = m_host->status();
  if (m_status.state == HostState::kReady) adoptModel();
}

EngineClient::~EngineClient() {
  {
    const std::lock_guard lock(m_gate->mutex);
    m_gate->client = nullptr;
  }
  m_subscription.reset();
  for (const auto& [id, answer] : m_answers) abort(id);
  closeRing();
  finishWork();
}

void EngineClient::finishWork() {
  for (QThreadPool* pool : {&m_prompts, &m_counting, &m_commands}) pool->waitForDone();
}

void EngineClient::receiveStatus(const HostStatus& status) {
  m_status = status;
  const bool wasThere = m_model != nullptr;
  if (status.state == HostState::kReady) {
    const auto current = m_host->current();
    if (current && current != m_hosted.lock()) adoptModel();
  } else if (status.state != HostState::kDraining && wasThere) {
    dropModel();
  }
  emit statusChanged(m_status);
}

void EngineClient::adoptModel() {
  auto hosted = m_host->current();
  if (!hosted) return;
  closeRing();
  m_hosted = hosted;
  m_model = describe(*hosted);
  m_paused = hosted->engine != nullptr && hosted->engine->paused();
  letGo(std::move(hosted));
  if (!m_watch.expired()) openRing();
  emit modelChanged();
  emit pausedChanged(m_paused);
}

void EngineClient::dropModel() {
  closeRing();
  m_hosted.reset();
  m_model.reset();
  emit modelChanged();
}

// A model's last owner stops its engine, which must not happen in the GUI thread.
void EngineClient::letGo(std::shared_ptr<HostedModel> hosted) {
  m_commands.start([owned = std::move(hosted)] {});
}

void EngineClient::load(const QString& path, const QString& id, const LoadOptions& options) {
  m_commands.start([host = m_host, path = path.toStdString(), id = id.toStdString(), options] {
    host->load(path, id, options);
  });
}

void EngineClient::cancelLoad() {
  // Not behind the other commands: it must be quick.
  QThreadPool::globalInstance()->start([host = m_host] { host->cancel_load(); });
}

void EngineClient::reload(const LoadOptions& options) {
  if (m_model) load(m_model->path, m_model->id, options);
}

// Runs `work` on the command thread, with the model kept alive meanwhile: its last owner may end
// there, never in the GUI thread.
void EngineClient::command(std::function<void(Engine&)> work) {
  m_commands.start([weak = m_hosted, work = std::move(work)] {
    if (const auto hosted = weak.lock(); hosted && hosted->engine) work(*hosted->engine);
  });
}

void EngineClient::reconfigure(const EngineConfig& config) {
  command([gate = m_gate, config](Engine& engine) {
    const Status status = engine.reconfigure(config);
    const QString error = status.ok() ? QString() : text(status.error().message);
    const EngineConfig now = engine.config();
    gate->post([error, now](EngineClient& client) {
      if (client.m_model) {
        auto changed = std::make_shared<ModelInfo>(*client.m_model);
        changed->engine = now;
        client.m_model = changed;
      }
      emit client.configChanged(now);
      emit client.reconfigured(error);
    });
  });
}

void EngineClient::pause() {
  if (!m_model) return;
  command([](Engine& engine) { engine.pause(); });
  m_paused = true;
  emit pausedChanged(true);
}

void EngineClient::resume() {
  if (!m_model) return;
  command([](Engine& engine) { engine.resume(); });
  m_paused = false;
  emit pausedChanged(false);
}

void EngineClient::step(int count) {
  if (!m_model) return;
  command([count](Engine& engine) { engine.step(count); });
  if (!std::exchange(m_paused, true)) emit pausedChanged(true);
}

void EngineClient::resetPrefixCache() {
  command([](Engine& engine) { engine.reset_prefix_cache(); });
}

void EngineClient::requestSnapshot() {
  command([gate = m_gate](Engine& engine) {
    engine.request_snapshot([gate](EngineSnapshot snapshot) {
      auto shared = std::make_shared<const EngineSnapshot>(std::move(snapshot));
      gate->post([shared](EngineClient& client) { emit client.snapshotReady(shared); });
    });
  });
}

AnswerId EngineClient::submit(const Conversation& conversation) {
  const AnswerId id = m_nextAnswer++;
  auto answer = std::make_shared<Answer>();
  answer->hosted = m_hosted;
  m_answers.emplace(id, answer);
  AnswerUpdate first;
  first.preparing = true;
  answer->put(std::move(first));
  QMetaObject::invokeMethod(this, &EngineClient::scheduleFlush, Qt::QueuedConnection);

  m_prompts.start([gate = m_gate, answer, conversation] {
    const auto fail = [&](const Error& error, int promptTokens, int contextTokens) {
      AnswerUpdate update;
      update.state = GenerationState::kFinished;
      update.finishReason = FinishReason::kError;
      update.error = text(error.message);
      update.tooLong = error.code == ErrorCode::kContextLengthExceeded;
      update.promptTokens = promptTokens;
      update.contextTokens = contextTokens;
      if (error.code == ErrorCode::kCancelled) {
        update.finishReason = FinishReason::kAborted;
        update.error.clear();
      }
      answer->put(std::move(update));
      gate->post([](EngineClient& client) { client.scheduleFlush(); });
    };
    const auto hosted = answer->hosted.lock();
    if (!hosted || hosted->engine == nullptr) {
      fail({ErrorCode::kNotReady, tr("No model is loaded yet.").toStdString()}, 0, 0);
      return;
    }
    Result<std::vector<TokenId>> prompt = tokenizeConversation(*hosted, conversation);
    if (!prompt.ok()) return fail(prompt.error(), 0, 0);
    GenerationRequest request;
    request.prompt_token_ids = std::move(prompt).value();
    request.params = conversation.settings.sampling;
    request.label = "chat";
    const int promptTokens = static_cast<int>(request.prompt_token_ids.size());
    const Status status = answer->submitTo(*hosted->engine, std::move(request),
                                           std::make_shared<AnswerSink>(gate, answer));
    if (!status.ok()) {
      fail(status.error(), promptTokens, hosted->engine->config().effective_context());
    }
  });
  return id;
}

void EngineClient::abort(AnswerId id) {
  const auto it = m_answers.find(id);
  if (it == m_answers.end()) return;
  m_commands.start([answer = it->second] {
    const auto hosted = answer->hosted.lock();
    const std::lock_guard lock(answer->mutex);
    answer->aborted = true;
    if (hosted && hosted->engine && answer->request != kNoRequest) {
      hosted->engine->abort(answer->request);
    }
  });
}

void EngineClient::measure(const Conversation& conversation) {
  const quint64 ticket = ++*m_measureTicket;
  m_counting.start(
      [gate = m_gate, weak = m_hosted, latest = m_measureTicket, ticket, conversation] {
        const auto hosted = weak.lock();
        if (!hosted || !hosted->engine || latest->load() != ticket) return;
        PromptSize size;
        size.contextTokens = hosted->engine->config().effective_context();
        if (auto prompt = tokenizeConversation(*hosted, conversation); prompt.ok()) {
          size.tokens = static_cast<int>(prompt->size());
        } else {
          size.error = text(prompt.error().message);
        }
        if (latest->load() != ticket) return;
        gate->post([size](EngineClient& client) { emit client.measured(size); });
      });
}

void EngineClient::scheduleFlush() {
  if (m_flushTimer.isActive()) {
    m_flushWanted = true;
    return;
  }
  flushAnswers();
  m_flushTimer.start();
}

void EngineClient::flushAnswers() {
  std::vector<std::pair<AnswerId, AnswerUpdate>> updates;
  for (const auto& [id, answer] : m_answers) {
    const std::lock_guard lock(answer->mutex);
    if (!std::exchange(answer->dirty, false)) continue;
    updates.emplace_back(id, answer->pending);
    answer->pending.text.clear();
  }
  for (const auto& [id, update] : updates) {
    if (update.state == GenerationState::kFinished) m_answers.erase(id);
  }
  for (const auto& [id, update] : updates) emit answerUpdated(id, update);
}

std::shared_ptr<void> EngineClient::watch() {
  if (auto shared = m_watch.lock()) return shared;
  std::shared_ptr<void> token(static_cast<void*>(this), [gate = m_gate](void*) {
    gate->post([](EngineClient& client) {
      if (client.m_watch.expired()) client.closeRing();
    });
  });
  m_watch = token;
  openRing();
  return token;
}

void EngineClient::openRing() {
  auto hosted = m_hosted.lock();
  if (m_ring || !hosted || hosted->engine == nullptr) return;
  m_clockOffset = hosted->engine->now() - steadySeconds();
  m_ring = hosted->engine->open_ring(kRingRecords);
  m_arrivals = std::make_shared<ArrivalSink>();
  hosted->engine->add_sink(m_arrivals);
  letGo(std::move(hosted));
  m_frameTimer.start();
}

void EngineClient::closeRing() {
  m_frameTimer.stop();
  if (m_arrivals) {
    command([sink = std::shared_ptr<EventSink>(m_arrivals)](Engine& engine) {
      engine.remove_sink(sink);
    });
  }
  m_arrivals.reset();
  m_ring.reset();
}

void EngineClient::drainRing() {
  if (!m_ring) return;
  EngineFrame value;
  value.arrivals = m_arrivals->take();
  value.lost = m_ring->drain(value.records);
  value.nowSeconds = steadySeconds() + m_clockOffset;
  value.paused = m_paused;
  emit frame(value);
}

}  // namespace quire
