#include "ui/message_widget.h"

#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QEvent>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QMenu>
#include <QPalette>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include "ui/icons.h"
#include "ui/markdown_view.h"
#include "ui/prose_view.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kCopiedMs = 1500;

QString ending(const Message& message) {
  switch (message.state) {
    case MessageState::Stopped:
      return MessageWidget::tr("stopped by you");
    case MessageState::Interrupted:
      return MessageWidget::tr("interrupted: Quire ended meanwhile");
    case MessageState::Streaming:
    case MessageState::Failed:
      return {};
    case MessageState::Complete:
      break;
  }
  const QString& reason = message.stats.stopReason;
  if (reason == QLatin1String("length")) return MessageWidget::tr("ended at the length limit");
  return reason.isEmpty() ? QString() : MessageWidget::tr("complete");
}

}  // namespace

QString footerText(const Message& message) {
  const QLocale locale;
  const MessageStats& stats = message.stats;
  QStringList parts;
  if (const double speed = stats.tokensPerSecond(); speed > 0) {
    parts << MessageWidget::tr("%1 tok/s").arg(locale.toString(speed, 'f', 1));
  }
  if (stats.outputTokens > 0) {
    parts << MessageWidget::tr("%1 tokens").arg(locale.toString(stats.outputTokens));
  }
  if (stats.firstTokenSeconds >= 0) {
    parts << MessageWidget::tr("first token after %1 s")
                 .arg(locale.toString(stats.firstTokenSeconds, 'f', 2));
  }
  if (stats.promptTokens > 0) {
    parts << MessageWidget::tr("prompt %1, cached %2")
                 .arg(locale.toString(stats.promptTokens),
                      locale.toString(std::max(0, stats.cachedTokens)));
  }
  if (const QString end = ending(message); !end.isEmpty()) parts << end;
  return parts.join(QStringLiteral(" · "));
}

MessageWidget::MessageWidget(const Message& message, QWidget* parent)
    : QWidget(parent), m_role(message.role) {
  setFocusPolicy(Qt::NoFocus);
  if (m_role == Role::User) {
    buildUser();
  } else {
    buildAssistant();
  }
  applyTheme();
  setMessage(message);
}

void MessageWidget::buildUser() {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(2);
  m_bubble = new QFrame;
  m_bubble->setObjectName(QStringLiteral("bubble"));
  auto* inside = new QVBoxLayout(m_bubble);
  inside->setContentsMargins(14, 10, 14, 10);
  m_plain = new ProseView;
  m_plain->setAccessibleName(tr("Your message"));
  inside->addWidget(m_plain);
  auto* row = new QHBoxLayout;
  row->addSpacing(48);
  row->addWidget(m_bubble, 1);
  layout->addLayout(row);
  m_actions = new QHBoxLayout;
  m_actions->setSpacing(2);
  m_actions->addStretch();
  layout->addLayout(m_actions);
  m_copy = addButton(QStringLiteral("copy"), tr("Copy message"));
  m_change = addButton(QStringLiteral("edit"), tr("Edit and resend"));
  connect(m_change, &QToolButton::clicked, this, &MessageWidget::editWanted);
  connect(m_copy, &QToolButton::clicked, this, &MessageWidget::copy);
}

void MessageWidget::buildAssistant() {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(6);
  m_markdown = new MarkdownView;
  m_markdown->setAccessibleName(tr("Answer"));
  layout->addWidget(m_markdown);
  m_status = new QLabel;
  m_status->setTextFormat(Qt::PlainText);
  layout->addWidget(m_status);
  m_error = new QLabel;
  m_error->setTextFormat(Qt::PlainText);
  m_error->setWordWrap(true);
  m_error->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_error->setObjectName(QStringLiteral("error"));
  layout->addWidget(m_error);
  m_actions = new QHBoxLayout;
  m_actions->setSpacing(2);
  layout->addLayout(m_actions);
  m_copy = addButton(QStringLiteral("copy"), tr("Copy message"));
  m_change = addButton(QStringLiteral("retry"), tr("Regenerate"));
  connect(m_change, &QToolButton::clicked, this, &MessageWidget::regenerateWanted);
  connect(m_copy, &QToolButton::clicked, this, &MessageWidget::copy);
  m_footer = new QLabel;
  m_footer->setTextFormat(Qt::PlainText);
  m_footer->setWordWrap(true);
  m_footer->setTextInteractionFlags(Qt::TextSelectableByMouse);
  m_actions->addSpacing(6);
  m_actions->addWidget(m_footer, 1);
  m_status->hide();
  m_error->hide();
}

QToolButton* MessageWidget::addButton(const QString& iconName, const QString& name) {
  auto* button = new QToolButton;
  button->setIcon(icon(iconName));
  button->setIconSize(QSize(16, 16));
  button->setAutoRaise(true);
  button->setToolTip(name);
  button->setAccessibleName(name);
  button->setFocusPolicy(Qt::TabFocus);
  m_actions->addWidget(button);
  return button;
}

void MessageWidget::append(const QString& text) {
  m_status->hide();
  m_markdown->append(text);
}

void MessageWidget::setMessage(const Message& message) {
  if (m_role == Role::User) {
    if (m_userText != message.content || m_plain->document()->isEmpty()) {
      m_userText = message.content;
      m_plain->setPlain(message.content);
    }
    return;
  }
  const bool streaming = message.state == MessageState::Streaming;
  if (m_markdown->text() != message.content) m_markdown->setText(message.content);
  if (!streaming) {
    m_markdown->finish();
    m_status->hide();
  }
  m_markdown->setVisible(!message.content.isEmpty());
  m_error->setText(message.error);
  m_error->setVisible(!message.error.isEmpty());
  m_copy->setVisible(!streaming && !message.content.isEmpty());
  m_change->setVisible(!streaming);
  updateFooter(message);
}

void MessageWidget::setStatus(const QString& status) {
  m_status->setText(status);
  m_status->setVisible(!status.isEmpty() && m_markdown->text().isEmpty());
}

void MessageWidget::setActionsEnabled(bool enabled) {
  m_change->setEnabled(enabled);
}

QString MessageWidget::text() const {
  return m_role == Role::User ? m_userText : m_markdown->text();
}

void MessageWidget::updateFooter(const Message& message) {
  const bool streaming = message.state == MessageState::Streaming;
  const QString text = streaming ? QString() : footerText(message);
  m_footer->setText(text);
  m_footer->setVisible(!text.isEmpty());
  m_footer->setToolTip(
      message.stats.model.isEmpty() ? QString() : tr("Answered by %1").arg(message.stats.model));
}

void MessageWidget::copy() {
  QApplication::clipboard()->setText(text());
  m_copy->setIcon(icon(QStringLiteral("check")));
  QTimer::singleShot(kCopiedMs, m_copy, [this] { m_copy->setIcon(icon(QStringLiteral("copy"))); });
}

void MessageWidget::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  menu.addAction(icon(QStringLiteral("copy")), tr("Copy Message"), this, &MessageWidget::copy);
  QAction* change = m_role == Role::User
                        ? menu.addAction(icon(QStringLiteral("edit")), tr("Edit and Resend"), this,
                                         &MessageWidget::editWanted)
                        : menu.addAction(icon(QStringLiteral("retry")), tr("Regenerate"), this,
                                         &MessageWidget::regenerateWanted);
  change->setEnabled(m_change->isEnabled());
  menu.exec(event->globalPos());
}

void MessageWidget::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) applyTheme();
  QWidget::changeEvent(event);
}

void MessageWidget::applyTheme() {
  const Theme& theme = Theme::current();
  if (m_bubble != nullptr) {
    const QString sheet =
        QStringLiteral("#bubble { background: %1; border: none; border-radius: 12px; }")
            .arg(theme.raised.name());
    if (m_bubble->styleSheet() != sheet) m_bubble->setStyleSheet(sheet);
  }
  const auto color = [](QLabel* label, const QColor& to) {
    if (label == nullptr) return;
    QPalette palette = label->palette();
    if (palette.color(QPalette::WindowText) == to) return;
    palette.setColor(QPalette::WindowText, to);
    label->setPalette(palette);
  };
  color(m_status, theme.textMuted);
  color(m_footer, theme.textMuted);
  color(m_error, theme.danger);
}

}  // namespace quire
