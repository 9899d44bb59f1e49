#include "ui/message_bar.h"

#include <QAccessible>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPalette>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/icons.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kIconSize = 18;
constexpr std::size_t kMaxBars = 4;

QString iconName(BarKind kind) {
  switch (kind) {
    case BarKind::Info:
      return QStringLiteral("info");
    case BarKind::Success:
      return QStringLiteral("check");
    case BarKind::Warning:
      return QStringLiteral("warning");
    case BarKind::Error:
      return QStringLiteral("error");
  }
  return {};
}

}  // namespace

MessageBar::MessageBar(BarMessage message, QWidget* parent)
    : QFrame(parent), m_message(std::move(message)), m_icon(new QLabel(this)) {
  setObjectName(QStringLiteral("messageBar"));
  setAccessibleName(m_message.text);
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(12, 6, 6, 6);
  layout->setSpacing(10);
  m_icon->setFixedSize(kIconSize, kIconSize);
  layout->addWidget(m_icon, 0, Qt::AlignVCenter);

  auto* label = new QLabel(m_message.text, this);
  label->setTextFormat(Qt::PlainText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  label->setMinimumWidth(80);
  layout->addWidget(label, 1);

  for (const BarAction& action : m_message.actions) {
    auto* button = new QPushButton(action.label, this);
    connect(button, &QPushButton::clicked, this, [this, run = action.run] { act(run); });
    layout->addWidget(button, 0, Qt::AlignVCenter);
  }
  auto* close = new QToolButton(this);
  close->setIcon(icon(QStringLiteral("close")));
  close->setAutoRaise(true);
  close->setToolTip(tr("Dismiss"));
  close->setAccessibleName(tr("Dismiss this message"));
  connect(close, &QToolButton::clicked, this, &MessageBar::dismiss);
  layout->addWidget(close, 0, Qt::AlignVCenter);

  applyTheme();
  connect(&ThemeNotifier::instance(), &ThemeNotifier::changed, this, &MessageBar::applyTheme);
  if (m_message.timeoutMs > 0) {
    m_timer.setSingleShot(true);
    connect(&m_timer, &QTimer::timeout, this, &MessageBar::dismiss);
    m_timer.start(m_message.timeoutMs);
  }
}

void MessageBar::dismiss() {
  if (std::exchange(m_done, true)) return;
  if (m_message.onClosed) m_message.onClosed();
  emit finished();
}

void MessageBar::act(const std::function<void()>& run) {
  if (std::exchange(m_done, true)) return;
  emit finished();
  if (run) run();
}

void MessageBar::applyTheme() {
  const Theme& theme = Theme::current();
  QColor back = theme.infoBack, front = theme.info;
  if (m_message.kind == BarKind::Warning) back = theme.warningBack, front = theme.warning;
  if (m_message.kind == BarKind::Error) back = theme.dangerBack, front = theme.danger;
  if (m_message.kind == BarKind::Success) back = theme.successBack, front = theme.success;
  const QString sheet =
      QStringLiteral("#messageBar { background: %1; border: none; border-bottom: 1px solid %2; }")
          .arg(back.name(), theme.border.name());
  if (styleSheet() != sheet) setStyleSheet(sheet);
  m_icon->setPixmap(tinted(iconName(m_message.kind), front, kIconSize, devicePixelRatioF()));
}

MessageBarStack::MessageBarStack(QWidget* parent)
    : QWidget(parent), m_layout(new QVBoxLayout(this)) {
  m_layout->setContentsMargins(0, 0, 0, 0);
  m_layout->setSpacing(0);
  setVisible(false);
}

void MessageBarStack::show(BarMessage message) {
  if (message.key.isEmpty()) message.key = message.text;  // said once is enough
  remove(message.key);
  while (m_bars.size() >= kMaxBars) m_bars.front()->dismiss();
  auto* bar = new MessageBar(std::move(message), this);
  connect(bar, &MessageBar::finished, this, [this, bar] { discard(bar); });
  m_bars.push_back(bar);
  m_layout->addWidget(bar);
  setVisible(true);
  QAccessibleEvent event(bar, QAccessible::Alert);
  QAccessible::updateAccessibility(&event);
}

void MessageBarStack::remove(const QString& key) {
  const auto it = std::find_if(m_bars.begin(), m_bars.end(),
                               [&](MessageBar* bar) { return bar->key() == key; });
  if (it != m_bars.end()) (*it)->dismiss();
}

QStringList MessageBarStack::texts() const {
  QStringList result;
  for (const MessageBar* bar : m_bars) result << bar->text();
  return result;
}

void MessageBarStack::discard(MessageBar* bar) {
  std::erase(m_bars, bar);
  bar->hide();
  bar->deleteLater();
  setVisible(!m_bars.empty());
}

}  // namespace quire
