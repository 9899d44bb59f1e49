#include "ui/chat_session.h"

#include <QLocale>

namespace quire {
namespace {

constexpr int kSaveMs = 400;
constexpr int kMaxTitle = 60;

QString number(int value) {
  return QLocale().toString(value);
}

QString stopReason(const AnswerUpdate& update) {
  switch (update.finishReason) {
    case FinishReason::kNone:
      return {};
    case FinishReason::kStop:
      return QStringLiteral("stop");
    case FinishReason::kLength:
      return QStringLiteral("length");
    case FinishReason::kAborted:
      return QStringLiteral("aborted");
    case FinishReason::kError:
      return QStringLiteral("error");
  }
  return {};
}

void takeFigures(const AnswerUpdate& update, MessageStats& stats) {
  if (update.promptTokens > 0) stats.promptTokens = update.promptTokens;
  stats.cachedTokens = update.cachedTokens;
  stats.outputTokens = update.outputTokens;
  stats.firstTokenSeconds = update.firstTokenSeconds;
  stats.lastTokenSeconds = update.lastTokenSeconds;
  stats.preemptions = update.preemptions;
}

}  // namespace

QString answerStatus(const AnswerUpdate& update) {
  if (update.preparing) return ChatSession::tr("Preparing the prompt…");
  switch (update.state) {
    case GenerationState::kQueued:
      if (update.queuePosition <= 0) return ChatSession::tr("Next in the queue…");
      return update.queuePosition == 1
                 ? ChatSession::tr("Queued behind 1 request…")
                 : ChatSession::tr("Queued behind %1 requests…").arg(number(update.queuePosition));
    case GenerationState::kPrefill: {
      const QString done = number(std::min(update.computedTokens, update.promptTokens));
      if (update.cachedTokens <= 0) {
        return ChatSession::tr("Prefill: %1 of %2 tokens…").arg(done, number(update.promptTokens));
      }
      return ChatSession::tr("Prefill: %1 of %2 tokens, %3 cached…")
          .arg(done, number(update.promptTokens), number(update.cachedTokens));
    }
    case GenerationState::kDecoding:
    case GenerationState::kFinished:
      return {};
  }
  return {};
}

QString titleFrom(const QString& text) {
  QString line = text.simplified();
  if (line.size() <= kMaxTitle) return line;
  const qsizetype space = line.lastIndexOf(QLatin1Char(' '), kMaxTitle);
  line.truncate(space > kMaxTitle / 2 ? space : kMaxTitle);
  return line + QStringLiteral("…");
}

ChatSession::ChatSession(EngineClient* client, ChatStore* store, QString chatId, QObject* parent)
    : QObject(parent), m_client(client), m_store(store), m_chatId(std::move(chatId)) {
  m_saveTimer.setInterval(kSaveMs);
  connect(&m_saveTimer, &QTimer::timeout, this, [this] {
    if (std::exchange(m_unsaved, false)) save(m_conversation.messages.last());
  });
  connect(m_client, &EngineClient::answerUpdated, this, &ChatSession::onUpdate);
}

ChatSession::~ChatSession() {
  stop();
}

void ChatSession::adopt(const QString& title, const Conversation& conversation) {
  m_title = title;
  m_conversation = conversation;
  m_stored = true;
  emit reset();
}

void ChatSession::setTitle(const QString& title) {
  m_title = title;
  if (m_stored) m_store->rename(m_chatId, title);
  emit titleChanged(title);
}

void ChatSession::setSettings(const ChatSettings& settings) {
  m_conversation.settings = settings;
  if (m_stored) m_store->saveSettings(m_chatId, settings);
}

bool ChatSession::canSend(const QString& text) const {
  return !answering() && !text.trimmed().isEmpty() && m_client->model() != nullptr;
}

void ChatSession::send(const QString& text) {
  if (!canSend(text)) return;
  m_dropped.clear();
  if (m_title.isEmpty()) {
    m_title = titleFrom(text);
    emit titleChanged(m_title);
  }
  Message message;
  message.role = Role::User;
  message.content = text;
  addMessage(message);
  beginAnswer();
}

void ChatSession::addMessage(Message message) {
  message.id = ChatStore::newId();
  message.created = QDateTime::currentDateTimeUtc();
  store();
  m_conversation.messages.push_back(message);
  save(message);
  emit messageAdded(static_cast<int>(m_conversation.messages.size()) - 1);
}

void ChatSession::store() {
  if (std::exchange(m_stored, true)) return;
  m_store->createChat({m_chatId, m_title, QDateTime::currentDateTimeUtc()},
                      m_conversation.settings);
  emit stored();
}

void ChatSession::beginAnswer() {
  const Conversation question = m_conversation;
  Message reply;
  reply.role = Role::Assistant;
  reply.state = MessageState::Streaming;
  if (const auto model = m_client->model()) reply.stats.model = model->id;
  addMessage(reply);
  m_answer = m_client->submit(question);
  AnswerUpdate first;
  first.preparing = true;
  setStatus(answerStatus(first));
  m_saveTimer.start();
  emit answeringChanged(true);
}

void ChatSession::onUpdate(AnswerId answer, const AnswerUpdate& update) {
  if (answer != m_answer || m_answer == 0) return;
  const int index = static_cast<int>(m_conversation.messages.size()) - 1;
  Message& reply = m_conversation.messages[index];
  takeFigures(update, reply.stats);
  if (!update.text.isEmpty()) {
    reply.content += update.text;
    m_unsaved = true;
    emit textAppended(index, update.text);
  }
  setStatus(answerStatus(update));
  if (update.state == GenerationState::kFinished) onFinished(update);
}

void ChatSession::onFinished(const AnswerUpdate& update) {
  Message& reply = m_conversation.messages.last();
  reply.stats.stopReason = update.stopReason.isEmpty() ? stopReason(update) : update.stopReason;
  reply.state = MessageState::Complete;
  if (update.finishReason == FinishReason::kAborted) reply.state = MessageState::Stopped;
  if (update.finishReason == FinishReason::kError) {
    reply.state = MessageState::Failed;
    reply.error = update.error.isEmpty() ? tr("The answer could not be finished.") : update.error;
  }
  const bool outgrown = update.tooLong;
  endAnswer();
  if (outgrown) emit tooLong(update.promptTokens, update.contextTokens);
}

void ChatSession::endAnswer() {
  m_answer = 0;
  m_saveTimer.stop();
  m_unsaved = false;
  save(m_conversation.messages.last());
  setStatus({});
  emit messageChanged(static_cast<int>(m_conversation.messages.size()) - 1);
  emit answeringChanged(false);
}

void ChatSession::stop() {
  if (!answering()) return;
  m_client->abort(m_answer);
  Message& reply = m_conversation.messages.last();
  reply.state = MessageState::Stopped;
  reply.stats.stopReason = QStringLiteral("aborted");
  endAnswer();
}

void ChatSession::dropFrom(int index) {
  stop();
  m_dropped = m_conversation.messages.mid(index);
  m_droppedAt = index;
  m_conversation.messages.resize(index);
  QStringList ids;
  for (const Message& message : m_dropped) ids << message.id;
  m_store->removeMessages(ids);
  emit messagesRemoved(index);
}

void ChatSession::regenerate(int index) {
  if (index <= 0 || index >= messages().size() || messages()[index].role != Role::Assistant ||
      m_client->model() == nullptr) {
    return;
  }
  dropFrom(index);
  beginAnswer();
  emit replaced();
}

void ChatSession::resend(int index, const QString& text) {
  if (index < 0 || index >= messages().size() || messages()[index].role != Role::User ||
      text.trimmed().isEmpty() || m_client->model() == nullptr) {
    return;
  }
  dropFrom(index);
  Message message;
  message.content = text;
  addMessage(message);
  beginAnswer();
  emit replaced();
}

void ChatSession::undo() {
  if (!canUndo()) return;
  const QVector<Message> back = std::exchange(m_dropped, {});
  const int at = m_droppedAt;
  dropFrom(at);
  m_dropped.clear();
  for (const Message& message : back) {
    m_conversation.messages.push_back(message);
    save(message);
  }
  emit reset();
}

int ChatSession::lastUserIndex() const {
  for (int i = static_cast<int>(messages().size()) - 1; i >= 0; --i) {
    if (messages()[i].role == Role::User) return i;
  }
  return -1;
}

int ChatSession::lastReplyIndex() const {
  for (int i = static_cast<int>(messages().size()) - 1; i >= 0; --i) {
    if (messages()[i].role == Role::Assistant) return i;
  }
  return -1;
}

Conversation ChatSession::withDraft(const QString& draft) const {
  Conversation result = m_conversation;
  if (!draft.trimmed().isEmpty()) {
    Message message;
    message.content = draft;
    result.messages.push_back(message);
  }
  return result;
}

void ChatSession::setStatus(const QString& status) {
  if (m_status == status) return;
  m_status = status;
  emit statusChanged(status);
}

void ChatSession::save(const Message& message) {
  m_store->saveMessage(m_chatId, message);
}

}  // namespace quire
