#pragma once

#include <QScrollArea>
#include <vector>

#include "ui/chat_session.h"

class QToolButton;
class QVBoxLayout;

namespace quire {

class MessageWidget;

// The turns of one chat, newest at the bottom. Only the latest are given widgets; earlier ones
// follow when the person scrolls up to them. Stays at the bottom while new text arrives, unless
// scrolled away.
class TranscriptView : public QScrollArea {
  Q_OBJECT
 public:
  explicit TranscriptView(QWidget* parent = nullptr);

  // Shows `session` (may be null) and follows it; it must outlive the view or be replaced first.
  void setSession(ChatSession* session);
  bool atBottom() const;
  void scrollToBottom();

 signals:
  void editWanted(int index);

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;

 private:
  void rebuild();
  MessageWidget* makeWidget(int index);
  MessageWidget* widgetAt(int index) const;
  void addEarlier();
  void onAdded(int index);
  void onRemoved(int from);
  void onAnswering(bool answering);
  void placeJumpButton();
  void updateMargins();

  ChatSession* m_session = nullptr;
  QWidget* m_content;
  QVBoxLayout* m_column;
  std::vector<MessageWidget*> m_widgets;  // turns [m_first, m_first + size)
  int m_first = 0;
  bool m_stick = true;       // follow the bottom
  bool m_adjusting = false;  // the scroll bar moves because of us
  QToolButton* m_jump;
};

}  // namespace quire
