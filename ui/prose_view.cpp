#include "ui/prose_view.h"

#include <QAbstractTextDocumentLayout>
#include <QContextMenuEvent>
#include <QDesktopServices>
#include <QFontMetricsF>
#include <QMenu>
#include <QPointer>
#include <QScrollBar>
#include <QTextDocumentFragment>
#include <QTextTable>
#include <QUrl>
#include <QWheelEvent>
#include <cmath>

#include "ui/prose_document.h"

namespace quire {
namespace {

bool mayOpen(const QUrl& url) {
  static const QStringList schemes = {QStringLiteral("http"), QStringLiteral("https"),
                                      QStringLiteral("mailto")};
  return schemes.contains(url.scheme().toLower());
}

}  // namespace

ProseView::ProseView(QWidget* parent) : QTextBrowser(parent) {
  setFrameShape(QFrame::NoFrame);
  setOpenLinks(false);
  setUndoRedoEnabled(false);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  viewport()->setAutoFillBackground(false);
  setTextInteractionFlags(Qt::TextBrowserInteraction);
  connect(this, &QTextBrowser::anchorClicked, this, [](const QUrl& url) {
    if (mayOpen(url)) QDesktopServices::openUrl(url);
  });
}

QVariant ProseView::loadResource(int, const QUrl&) {
  return {};
}

// The view owns the document it shows. What is selected stays so where the text before its end has
// not changed.
void ProseView::adopt(QTextDocument* shown) {
  const QPointer<QTextDocument> old = document();  // setDocument deletes the one the control made
  const int anchor = textCursor().anchor(), position = textCursor().position();
  const QString selected = textCursor().selectedText();
  shown->setParent(this);
  setDocument(shown);
  if (old && old->parent() == this) old->deleteLater();
  if (!selected.isEmpty() && std::max(anchor, position) < shown->characterCount()) {
    QTextCursor cursor(shown);
    cursor.setPosition(anchor);
    cursor.setPosition(position, QTextCursor::KeepAnchor);
    if (cursor.selectedText() == selected) setTextCursor(cursor);
  }
  fitHeight();
}

void ProseView::setProse(const QString& markdown) {
  adopt(proseDocument(markdown, font()).release());
}

void ProseView::setPlain(const QString& text) {
  adopt(plainDocument(text, font()).release());
}

void ProseView::setTable(const QVector<QStringList>& rows,
                         const QVector<Qt::Alignment>& alignments) {
  m_scrollsSideways = true;
  setLineWrapMode(QTextEdit::NoWrap);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  adopt(tableDocument(rows, alignments, font()).release());
}

void ProseView::fitHeight() {
  const int width = viewport()->width();
  if (!m_scrollsSideways && document()->textWidth() != width) document()->setTextWidth(width);
  const QSizeF size = document()->documentLayout()->documentSize();
  int height = static_cast<int>(std::ceil(size.height()));
  if (m_scrollsSideways && size.width() > width)
    height += horizontalScrollBar()->sizeHint().height();
  height = std::max(height, fontMetrics().height());
  if (height != this->height() || minimumHeight() != height) setFixedHeight(height);
}

QSize ProseView::sizeHint() const {
  return {400, minimumHeight()};
}
QSize ProseView::minimumSizeHint() const {
  return {60, minimumHeight()};
}

void ProseView::resizeEvent(QResizeEvent* event) {
  QTextBrowser::resizeEvent(event);
  if (event->oldSize().width() != event->size().width()) fitHeight();
}

// The page scrolls, not the text.
void ProseView::wheelEvent(QWheelEvent* event) {
  const bool sideways =
      m_scrollsSideways && (event->modifiers() & Qt::ShiftModifier || event->angleDelta().x() != 0);
  if (sideways) {
    QTextBrowser::wheelEvent(event);
  } else {
    event->ignore();
  }
}

void ProseView::contextMenuEvent(QContextMenuEvent* event) {
  if (textCursor().hasSelection() || !anchorAt(event->pos()).isEmpty()) {
    QTextBrowser::contextMenuEvent(event);
  } else {
    event->ignore();
  }
}

}  // namespace quire
