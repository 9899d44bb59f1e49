#pragma once

#include <QFrame>

class QLabel;
class QPlainTextEdit;
class QToolButton;

namespace quire {

class ContextMeter;
struct PromptSize;

// Where a message is written: Enter sends, Shift+Enter breaks the line, Up in an empty input asks
// to edit the last message, Esc stops an answer or leaves editing. Enter that ends an input
// method's composition does not send.
class Composer : public QFrame {
  Q_OBJECT
 public:
  explicit Composer(QWidget* parent = nullptr);

  QString text() const;
  void setText(const QString& text);
  void clear();
  void focusInput();
  void setAnswering(bool answering);
  // Whether sending is possible, and if not why (shown as the button's tooltip).
  void setReady(bool ready, const QString& reason);
  // A turn is being edited: says so, offers to cancel.
  void setEditing(bool editing);
  bool editing() const { return m_editing; }
  void setSize(const PromptSize& size);  // for the meter

 signals:
  void sendWanted(const QString& text);
  void stopWanted();
  void editLastWanted();
  void editingCancelled();
  void settingsWanted();
  void textChanged();

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  bool onKey(class QKeyEvent* event);
  void send();
  void update();
  void fitHeight();
  void applyTheme();

  QPlainTextEdit* m_input;
  QToolButton* m_send;
  QToolButton* m_settings;
  QFrame* m_editBar;
  ContextMeter* m_meter;
  bool m_answering = false;
  bool m_editing = false;
  bool m_composing = false;  // an input method holds text that is not committed
  bool m_ready = false;
  QString m_reason;
};

}  // namespace quire
