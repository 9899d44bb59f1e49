#pragma once

#include <QWidget>

#include "ui/chat_types.h"

class QFrame;
class QHBoxLayout;
class QLabel;
class QToolButton;

namespace quire {

class MarkdownView;
class ProseView;

// One turn of a chat: its text, what can be done with it, and an answer's figures.
class MessageWidget : public QWidget {
  Q_OBJECT
 public:
  explicit MessageWidget(const Message& message, QWidget* parent = nullptr);

  void append(const QString& text);
  void setMessage(const Message& message);  // state, figures, error; the text only if it differs
  void setStatus(const QString& status);    // the line shown while nothing has arrived
  void setActionsEnabled(bool enabled);     // regenerate and edit
  QString text() const;                     // the source, as Copy gives it
  Role role() const { return m_role; }

 signals:
  void editWanted();
  void regenerateWanted();

 protected:
  void changeEvent(QEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  void buildUser();
  void buildAssistant();
  QToolButton* addButton(const QString& iconName, const QString& name);
  void copy();
  void updateFooter(const Message& message);
  void applyTheme();

  Role m_role;
  QString m_userText;
  QFrame* m_bubble = nullptr;
  ProseView* m_plain = nullptr;        // a person's turn
  MarkdownView* m_markdown = nullptr;  // an answer
  QLabel* m_status = nullptr;
  QLabel* m_error = nullptr;
  QLabel* m_footer = nullptr;
  QHBoxLayout* m_actions = nullptr;
  QToolButton* m_copy = nullptr;
  QToolButton* m_change = nullptr;  // edit or regenerate
};

// An answer's figures in one line: speed, time to first token, prompt and cached tokens, why it
// ended. Empty when nothing is known.
QString footerText(const Message& message);

}  // namespace quire
