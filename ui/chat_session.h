#pragma once

#include <QObject>
#include <QTimer>

#include "ui/chat_store.h"
#include "ui/chat_types.h"
#include "ui/engine_client.h"

namespace quire {

// One chat: its turns, the answer being streamed into it, and their way to the store. No widgets.
// A chat is created in the store with its first message. What streams is committed at least every
// 400 ms. GUI thread.
class ChatSession : public QObject {
  Q_OBJECT
 public:
  // A new, empty chat, or one to be filled by `adopt`. Both pointers must outlive the session.
  ChatSession(EngineClient* client, ChatStore* store, QString chatId, QObject* parent = nullptr);
  ~ChatSession() override;

  const QString& chatId() const { return m_chatId; }
  const QString& title() const { return m_title; }
  const Conversation& conversation() const { return m_conversation; }
  const QVector<Message>& messages() const { return m_conversation.messages; }
  bool answering() const { return m_answer != 0; }
  bool isStored() const { return m_stored; }
  QString status() const { return m_status; }  // what the running answer is doing, a short line

  void adopt(const QString& title, const Conversation& conversation);  // as read from the store
  void setTitle(const QString& title);
  void setSettings(const ChatSettings& settings);

  bool canSend(const QString& text) const;
  void send(const QString& text);
  // Keeps what has arrived, marked as stopped. Takes effect at once; later text is dropped.
  void stop();
  // Drops the turns from `index` on and answers again. `index` is an answer.
  void regenerate(int index);
  // Replaces the person's turn at `index` by `text`, drops what followed, and answers.
  void resend(int index, const QString& text);
  // Puts back what the last regenerate or resend dropped.
  bool canUndo() const { return !m_dropped.isEmpty(); }
  void undo();

  int lastUserIndex() const;   // -1: none
  int lastReplyIndex() const;  // -1: none
  // The conversation as it would be sent with `draft` added.
  Conversation withDraft(const QString& draft) const;

 signals:
  void reset();  // everything may have changed
  void messageAdded(int index);
  void textAppended(int index, const QString& text);
  void messageChanged(int index);  // its state, figures or whole text
  void messagesRemoved(int from);  // [from, end) are gone
  void answeringChanged(bool answering);
  void statusChanged(const QString& status);
  void titleChanged(const QString& title);
  void replaced();  // turns were dropped: undo() is possible
  void tooLong(int promptTokens, int contextTokens);
  void stored();  // the chat has just been created in the store

 private:
  void onUpdate(AnswerId answer, const AnswerUpdate& update);
  void onFinished(const AnswerUpdate& update);
  void addMessage(Message message);
  void dropFrom(int index);
  void beginAnswer();
  void endAnswer();
  void setStatus(const QString& status);
  void save(const Message& message);
  void store();

  EngineClient* m_client;
  ChatStore* m_store;
  QString m_chatId, m_title;
  Conversation m_conversation;
  bool m_stored = false;
  AnswerId m_answer = 0;
  QString m_status;
  QTimer m_saveTimer;
  bool m_unsaved = false;
  QVector<Message> m_dropped;  // by the last regenerate or resend
  int m_droppedAt = 0;
};

// The line shown while an answer is on its way; empty once words arrive.
QString answerStatus(const AnswerUpdate& update);

// A chat's title made from its first message: one line, cut at a word.
QString titleFrom(const QString& text);

}  // namespace quire
