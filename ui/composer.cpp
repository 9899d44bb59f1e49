#include "ui/composer.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QLabel>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextLayout>
#include <QToolButton>
#include <QVBoxLayout>

#include "ui/context_meter.h"
#include "ui/icons.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kMaxLines = 10;
constexpr int kButton = 32;

}  // namespace

Composer::Composer(QWidget* parent)
    : QFrame(parent),
      m_input(new QPlainTextEdit),
      m_send(new QToolButton),
      m_settings(new QToolButton),
      m_editBar(new QFrame),
      m_meter(new ContextMeter) {
  setObjectName(QStringLiteral("composer"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(10, 8, 8, 8);
  layout->setSpacing(4);

  auto* edit = new QHBoxLayout(m_editBar);
  edit->setContentsMargins(4, 0, 0, 0);
  auto* note = new QLabel(tr("Editing an earlier message. Sending replaces it and what followed."));
  note->setWordWrap(true);
  edit->addWidget(note, 1);
  auto* cancel = new QPushButton(tr("Cancel"));
  connect(cancel, &QPushButton::clicked, this, &Composer::editingCancelled);
  edit->addWidget(cancel);
  layout->addWidget(m_editBar);
  m_editBar->hide();

  m_input->setPlaceholderText(tr("Write a message"));
  m_input->setAccessibleName(tr("Message"));
  m_input->setFrameShape(QFrame::NoFrame);
  m_input->setTabChangesFocus(true);
  m_input->setVerticalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  m_input->viewport()->setAutoFillBackground(false);
  m_input->installEventFilter(this);
  connect(m_input, &QPlainTextEdit::textChanged, this, [this] {
    fitHeight();
    update();
    emit textChanged();
  });
  layout->addWidget(m_input);

  m_settings->setIcon(icon(QStringLiteral("settings")));
  m_settings->setAutoRaise(true);
  m_settings->setToolTip(tr("Chat settings: system prompt and sampling"));
  m_settings->setAccessibleName(tr("Chat settings"));
  connect(m_settings, &QToolButton::clicked, this, &Composer::settingsWanted);
  m_send->setObjectName(QStringLiteral("send"));
  m_send->setFixedSize(kButton, kButton);
  m_send->setIconSize(QSize(20, 20));
  connect(m_send, &QToolButton::clicked, this,
          [this] { m_answering ? emit stopWanted() : send(); });
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  row->addWidget(m_settings);
  row->addWidget(m_meter, 1);
  row->addWidget(m_send);
  layout->addLayout(row);
  setFocusProxy(m_input);
  applyTheme();
  connect(&ThemeNotifier::instance(), &ThemeNotifier::changed, this, [this] {
    applyTheme();
    update();
  });
  fitHeight();
  update();
}

QString Composer::text() const {
  return m_input->toPlainText();
}

void Composer::setText(const QString& text) {
  m_input->setPlainText(text);
  m_input->moveCursor(QTextCursor::End);
}

void Composer::clear() {
  m_input->clear();
}
void Composer::focusInput() {
  m_input->setFocus(Qt::OtherFocusReason);
}

void Composer::setAnswering(bool answering) {
  m_answering = answering;
  update();
}

void Composer::setReady(bool ready, const QString& reason) {
  m_ready = ready;
  m_reason = reason;
  update();
}

void Composer::setEditing(bool editing) {
  m_editing = editing;
  m_editBar->setVisible(editing);
}

void Composer::setSize(const PromptSize& size) {
  m_meter->setSize(size);
}

void Composer::send() {
  const QString message = text();
  if (!m_ready || m_answering || message.trimmed().isEmpty()) return;
  emit sendWanted(message);
}

void Composer::update() {
  const bool can = m_ready && !text().trimmed().isEmpty();
  const QString name = m_answering ? tr("Stop") : tr("Send");
  m_send->setEnabled(m_answering || can);
  const QColor color =
      m_send->isEnabled() ? Theme::current().accentText : Theme::current().textMuted;
  const QPixmap pixmap = tinted(m_answering ? QStringLiteral("stop") : QStringLiteral("send"),
                                color, 20, devicePixelRatioF());
  QIcon picture(pixmap);
  picture.addPixmap(pixmap, QIcon::Disabled);
  m_send->setIcon(picture);
  m_send->setAccessibleName(name);
  if (m_answering) {
    m_send->setToolTip(tr("Stop the answer (Esc)"));
  } else {
    m_send->setToolTip(m_ready ? tr("Send (Enter)") : m_reason);
  }
}

bool Composer::eventFilter(QObject* object, QEvent* event) {
  if (object == m_input && event->type() == QEvent::InputMethod) {
    m_composing = !static_cast<QInputMethodEvent*>(event)->preeditString().isEmpty();
  }
  if (object == m_input && event->type() == QEvent::KeyPress &&
      onKey(static_cast<QKeyEvent*>(event))) {
    return true;
  }
  if (object == m_input && event->type() == QEvent::Resize) fitHeight();
  return QFrame::eventFilter(object, event);
}

bool Composer::onKey(QKeyEvent* event) {
  const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (enter && !(event->modifiers() & Qt::ShiftModifier)) {
    if (m_composing) return false;
    send();
    return true;
  }
  if (event->key() == Qt::Key_Up && text().isEmpty() && event->modifiers() == Qt::NoModifier) {
    emit editLastWanted();
    return true;
  }
  if (event->key() == Qt::Key_Escape && (m_answering || m_editing)) {
    if (m_answering) {
      emit stopWanted();
    } else {
      emit editingCancelled();
    }
    return true;
  }
  return false;
}

void Composer::fitHeight() {
  const QFontMetrics metrics(m_input->font());
  int lines = 0;
  for (QTextBlock block = m_input->document()->begin(); block.isValid() && lines < kMaxLines;
       block = block.next()) {
    lines += std::max(1, block.layout() ? block.layout()->lineCount() : 1);
  }
  const int shown = std::clamp(lines, 1, kMaxLines);
  const int margin = static_cast<int>(m_input->document()->documentMargin());
  m_input->setFixedHeight(shown * metrics.lineSpacing() + 2 * margin + 4);
}

void Composer::applyTheme() {
  const Theme& theme = Theme::current();
  const QString sheet =
      QStringLiteral(
          "#composer { background: %1; border: 1px solid %2; border-radius: 12px; }"
          "#composer QPlainTextEdit { background: transparent; }"
          "#send { background: %3; border: none; border-radius: 16px; }"
          "#send:disabled { background: %4; }"
          "#send:focus { border: 2px solid %5; }")
          .arg(theme.surface.name(), theme.border.name(), theme.accent.name(), theme.raised.name(),
               theme.text.name());
  if (styleSheet() != sheet) setStyleSheet(sheet);
}

}  // namespace quire
