#pragma once

#include <QFrame>
#include <QString>
#include <QTimer>
#include <functional>
#include <vector>

class QLabel;
class QVBoxLayout;

namespace quire {

enum class BarKind { Info, Success, Warning, Error };

struct BarAction {
  QString label;
  std::function<void()> run;
};

// What a bar says. Bars with the same `key` (the text, when empty) replace one another.
struct BarMessage {
  BarKind kind = BarKind::Info;
  QString text;
  std::vector<BarAction> actions;
  QString key;
  int timeoutMs = 0;               // 0 = stays until closed
  std::function<void()> onClosed;  // closed by the person or by time, not by an action
};

// One message in place: an icon, a sentence, what can be done about it, and a close button.
class MessageBar : public QFrame {
  Q_OBJECT
 public:
  explicit MessageBar(BarMessage message, QWidget* parent = nullptr);

  const QString& key() const { return m_message.key; }
  QString text() const { return m_message.text; }
  void dismiss();  // as the close button

 signals:
  void finished();  // nothing more to say: remove it

 private:
  void applyTheme();
  void act(const std::function<void()>& run);

  BarMessage m_message;
  QLabel* m_icon;
  QTimer m_timer;
  bool m_done = false;
};

// The bars of a page, newest at the bottom; takes no room while empty.
class MessageBarStack : public QWidget {
  Q_OBJECT
 public:
  explicit MessageBarStack(QWidget* parent = nullptr);

  void show(BarMessage message);
  void remove(const QString& key);
  QStringList texts() const;  // what is being said, oldest first

 private:
  void discard(MessageBar* bar);

  QVBoxLayout* m_layout;
  std::vector<MessageBar*> m_bars;
};

}  // namespace quire
