#pragma once

#include <QObject>
#include <QString>
#include <QThreadPool>
#include <QTimer>
#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/model_host.h"
#include "ui/chat_types.h"

namespace quire {

// Handle of one submitted answer, unique within the client; 0 is "none".
using AnswerId = quint64;

// What the window knows of the loaded model: a copy, valid after the model is gone.
struct ModelInfo {
  QString id, path, name, description, backend, templateNote;
  ModelConfig config;
  EngineConfig engine;
  qint64 numParameters = 0;
  MemoryUse memory;
};

// Progress of one answer. `text` is what is new since the last update of the same answer.
struct AnswerUpdate {
  GenerationState state = GenerationState::kQueued;
  bool preparing = false;  // the prompt is still being rendered and tokenised
  QString text;
  FinishReason finishReason = FinishReason::kNone;
  QString stopReason;
  QString error;          // a sentence, when finishReason is kError
  bool tooLong = false;   // refused: the conversation does not fit the context
  int contextTokens = 0;  // the effective context, when tooLong
  int queuePosition = 0;  // answers ahead of it, while queued
  int promptTokens = 0, computedTokens = 0, cachedTokens = 0, outputTokens = 0, preemptions = 0;
  double firstTokenSeconds = -1, lastTokenSeconds = -1;  // since submit
};

// A request seen arriving while someone watched.
struct ArrivalInfo {
  RequestId request = kNoRequest;
  QString label;
  int promptTokens = 0;
  double timeSeconds = 0;  // on the clock of the records
};

// What the engine did since the last frame. Sent about 30 times a second while watched.
struct EngineFrame {
  std::vector<std::shared_ptr<const StepRecord>> records;  // oldest first
  std::vector<ArrivalInfo> arrivals;
  quint64 lost = 0;       // records missing before `records`: rejoin from a snapshot
  double nowSeconds = 0;  // the engine's clock
  bool paused = false;
};

// Size of a conversation as the loaded model would see it.
struct PromptSize {
  int tokens = 0;
  int contextTokens = 0;  // min(model context, tokens in the pool)
  QString error;          // a sentence when it could not be measured
};

// The window's only way to the engine: commands in, queued signals with immutable values out. Lives
// in the GUI thread and never blocks it: prompts are rendered and tokenised, and the engine is
// called, on worker threads. Holds the host, never an engine: a model being replaced is let go.
class EngineClient : public QObject {
  Q_OBJECT
 public:
  explicit EngineClient(std::shared_ptr<ModelHost> host, QObject* parent = nullptr);
  ~EngineClient() override;

  const std::shared_ptr<ModelHost>& host() const { return m_host; }
  const HostStatus& status() const { return m_status; }               // as last signalled
  std::shared_ptr<const ModelInfo> model() const { return m_model; }  // null unless ready
  bool paused() const { return m_paused; }

  // Drains the running model (nobody's answer is cut), then loads.
  void load(const QString& path, const QString& id, const LoadOptions& options);
  void cancelLoad();
  // Loads the current model again with other options.
  void reload(const LoadOptions& options);
  // Live settings only; `reconfigured` tells the outcome.
  void reconfigure(const EngineConfig& config);
  void pause();
  void resume();
  void step(int count);
  void resetPrefixCache();
  void requestSnapshot();

  // Renders the chat template, tokenises and submits. Every answer ends with exactly one update in
  // state kFinished, whatever happens.
  virtual AnswerId submit(const Conversation& conversation);
  virtual void abort(AnswerId answer);
  // Counts the tokens of a conversation, off the GUI thread; `measured` brings the result. A newer
  // call replaces one that has not begun.
  virtual void measure(const Conversation& conversation);

  // Frames flow while at least one token is held.
  std::shared_ptr<void> watch();

  // Blocks until nothing of ours runs on the workers. For orderly shutdown.
  void finishWork();

 signals:
  void statusChanged(const quire::HostStatus& status);
  void modelChanged();  // model() is another one, or gone
  void configChanged(const quire::EngineConfig& config);
  void reconfigured(const QString& error);  // empty = done
  void pausedChanged(bool paused);
  void answerUpdated(quire::AnswerId answer, const quire::AnswerUpdate& update);
  void measured(const quire::PromptSize& size);
  void frame(const quire::EngineFrame& frame);
  void snapshotReady(std::shared_ptr<const quire::EngineSnapshot> snapshot);

 private:
  struct Gate;    // posts to this object from other threads until it is destroyed
  struct Answer;  // one answer's mailbox
  class AnswerSink;
  class ArrivalSink;

  void receiveStatus(const HostStatus& status);
  void adoptModel();
  void dropModel();
  void letGo(std::shared_ptr<HostedModel> hosted);
  void command(std::function<void(Engine&)> work);
  void scheduleFlush();
  void flushAnswers();
  void openRing();
  void closeRing();
  void drainRing();

  std::shared_ptr<ModelHost> m_host;
  std::shared_ptr<Gate> m_gate;
  std::shared_ptr<void> m_subscription;
  HostStatus m_status;
  std::shared_ptr<const ModelInfo> m_model;
  std::weak_ptr<HostedModel> m_hosted;
  bool m_paused = false;

  // Each runs one thing at a time, in order.
  QThreadPool m_commands;
  QThreadPool m_prompts;
  QThreadPool m_counting;
  std::shared_ptr<std::atomic<quint64>> m_measureTicket;

  AnswerId m_nextAnswer = 1;
  std::unordered_map<AnswerId, std::shared_ptr<Answer>> m_answers;
  QTimer m_flushTimer;
  bool m_flushWanted = false;

  std::weak_ptr<void> m_watch;
  QTimer m_frameTimer;
  std::shared_ptr<StepRing> m_ring;
  std::shared_ptr<ArrivalSink> m_arrivals;
  double m_clockOffset = 0;  // engine clock minus steady clock, in seconds
};

}  // namespace quire

Q_DECLARE_METATYPE(quire::HostStatus)
Q_DECLARE_METATYPE(quire::AnswerUpdate)
Q_DECLARE_METATYPE(quire::EngineFrame)
Q_DECLARE_METATYPE(quire::PromptSize)
