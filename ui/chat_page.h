#pragma once

#include <QHash>
#include <QWidget>

#include "ui/chat_session.h"
#include "ui/message_bar.h"

class QLabel;
class QPushButton;
class QSplitter;
class QStackedWidget;
class QTimer;

namespace quire {

class ChatList;
class Composer;
class TranscriptView;

// The chats: list, transcript and composer. An answer goes on in the background when another chat
// is chosen.
class ChatPage : public QWidget {
  Q_OBJECT
 public:
  // Both must outlive the page.
  ChatPage(EngineClient* client, ChatStore* store, QWidget* parent = nullptr);
  ~ChatPage() override;

  void newChat();
  void openChat(const QString& id);
  void deleteChat(const QString& id);
  void regenerate();  // the last answer
  void editLast();
  void copyLastReply();
  void showSettings();
  void toggleList();
  void focusInput();
  void focusSearch();
  // Stops what streams and writes everything; before the program ends.
  void finish();

  QByteArray saveLayout() const;
  void restoreLayout(const QByteArray& state);

  ChatSession* session() const { return m_session; }
  Composer* composer() const { return m_composer; }
  ChatList* list() const { return m_list; }
  TranscriptView* transcript() const { return m_transcript; }
  MessageBarStack* bars() const { return m_bars; }

 signals:
  void notice(const quire::BarMessage& message);
  void modelWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  QWidget* buildEmptyState();
  void showSession(ChatSession* session);
  ChatSession* makeSession(const QString& id);
  void letGo(ChatSession* session);
  void onLoaded(const QString& id, const Conversation& conversation);
  void send(const QString& text);
  void beginEdit(int index);
  void endEdit();
  void undoDelete(const ChatSummary& chat);
  void onTooLong(int promptTokens, int contextTokens);
  void onMeasured(const PromptSize& size);
  void measureSoon();
  void measure();
  void updateState();
  void updateListVisibility();

  EngineClient* m_client;
  ChatStore* m_store;
  QHash<QString, ChatSession*> m_sessions;  // the shown one and those still answering
  ChatSession* m_session = nullptr;
  QSplitter* m_splitter;
  ChatList* m_list;
  QStackedWidget* m_middle;
  TranscriptView* m_transcript;
  QLabel* m_emptyTitle = nullptr;
  QLabel* m_emptyText = nullptr;
  QPushButton* m_emptyButton = nullptr;
  MessageBarStack* m_bars;
  Composer* m_composer;
  QTimer* m_measureTimer;
  int m_editing = -1;  // index of the turn being edited
  bool m_listWanted = true;
  bool m_listForced = false;  // shown although the window is narrow
};

}  // namespace quire
