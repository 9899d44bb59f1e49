#include "ui/code_block.h"

#include <QApplication>
#include <QClipboard>
#include <QEvent>
#include <QFontMetricsF>
#include <QHBoxLayout>
#include <QLabel>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QTextBlock>
#include <QTextCursor>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <cmath>

#include "ui/code_highlighter.h"
#include "ui/icons.h"
#include "ui/prose_document.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kCopiedMs = 1500;
constexpr int kMargin = 8;

}  // namespace

CodeBlock::CodeBlock(QWidget* parent)
    : QFrame(parent),
      m_language(new QLabel(this)),
      m_copy(new QToolButton(this)),
      m_edit(new QPlainTextEdit(this)) {
  setObjectName(QStringLiteral("codeBlock"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(1, 1, 1, 1);
  layout->setSpacing(0);
  auto* header = new QHBoxLayout;
  header->setContentsMargins(10, 2, 4, 2);
  m_language->setTextFormat(Qt::PlainText);
  header->addWidget(m_language);
  header->addStretch();
  m_copy->setText(tr("Copy"));
  m_copy->setIcon(icon(QStringLiteral("copy")));
  m_copy->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_copy->setAutoRaise(true);
  m_copy->setAccessibleName(tr("Copy code"));
  m_copy->setFocusPolicy(Qt::TabFocus);
  connect(m_copy, &QToolButton::clicked, this, &CodeBlock::copy);
  header->addWidget(m_copy);
  layout->addLayout(header);

  m_edit->setReadOnly(true);
  m_edit->setUndoRedoEnabled(false);
  m_edit->setLineWrapMode(QPlainTextEdit::NoWrap);
  m_edit->setFrameShape(QFrame::NoFrame);
  m_edit->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_edit->setFont(monospaceFont(font()));
  m_edit->setTabStopDistance(QFontMetricsF(m_edit->font()).horizontalAdvance(QLatin1Char(' ')) * 4);
  m_edit->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  m_edit->document()->setDocumentMargin(kMargin);
  m_edit->setAccessibleName(tr("Code"));
  m_edit->viewport()->installEventFilter(this);
  m_edit->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  layout->addWidget(m_edit);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  applyTheme();
  connect(&ThemeNotifier::instance(), &ThemeNotifier::changed, this, [this] {
    applyTheme();
    if (m_highlighter != nullptr) m_highlighter->rehighlight();
  });
}

void CodeBlock::setCode(const QString& code, const QString& language) {
  if (m_name != language || m_highlighter == nullptr) {
    m_name = language;
    m_language->setText(language.isEmpty() ? tr("text") : language);
    delete m_highlighter;
    m_highlighter = new CodeHighlighter(m_edit->document(), language);
  }
  if (code == m_code && !code.isEmpty()) return;
  if (!m_code.isEmpty() && code.startsWith(m_code)) {
    QTextCursor cursor(m_edit->document());
    cursor.movePosition(QTextCursor::End);
    cursor.insertText(code.mid(m_code.size()));
  } else {
    m_edit->setPlainText(code);
  }
  m_code = code;
  fitHeight();
}

void CodeBlock::copy() {
  QApplication::clipboard()->setText(m_code);
  m_copy->setText(tr("Copied"));
  QTimer::singleShot(kCopiedMs, m_copy, [this] { m_copy->setText(tr("Copy")); });
}

void CodeBlock::fitHeight() {
  const qreal line = QFontMetricsF(m_edit->font()).lineSpacing();
  const int lines = std::max(1, m_edit->document()->blockCount());
  int height = static_cast<int>(std::ceil(line * lines)) + 2 * kMargin;
  if (m_edit->horizontalScrollBar()->maximum() > 0) {
    height += m_edit->horizontalScrollBar()->sizeHint().height();
  }
  if (m_edit->height() != height || m_edit->minimumHeight() != height) {
    m_edit->setFixedHeight(height);
  }
}

bool CodeBlock::eventFilter(QObject* object, QEvent* event) {
  if (event->type() == QEvent::Wheel) {
    const auto* wheel = static_cast<QWheelEvent*>(event);
    const bool sideways = wheel->modifiers() & Qt::ShiftModifier || wheel->angleDelta().x() != 0;
    if (!sideways) {
      event->ignore();
      QApplication::sendEvent(parentWidget(), event);
      return true;
    }
  }
  if (event->type() == QEvent::Resize) QTimer::singleShot(0, this, &CodeBlock::fitHeight);
  return QFrame::eventFilter(object, event);
}

void CodeBlock::applyTheme() {
  const Theme& theme = Theme::current();
  const QString sheet =
      QStringLiteral(
          "#codeBlock { background: %1; border: 1px solid %2; border-radius: 6px; }"
          "#codeBlock QLabel { color: %3; border: none; }"
          "#codeBlock QPlainTextEdit { background: transparent; color: %4; }")
          .arg(theme.codeBackground.name(), theme.border.name(), theme.textMuted.name(),
               theme.text.name());
  if (styleSheet() != sheet) setStyleSheet(sheet);
}

}  // namespace quire
