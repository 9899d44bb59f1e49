#include "ui/markdown_view.h"

#include <QElapsedTimer>
#include <QEvent>
#include <QLabel>
#include <QTextCursor>
#include <QVBoxLayout>

#include "ui/code_block.h"
#include "ui/prose_document.h"
#include "ui/prose_view.h"
#include "ui/theme.h"

namespace quire {
namespace {

using Kind = MarkdownBlock::Kind;

constexpr qsizetype kMaxProse = 6'000;   // characters of prose in one widget
constexpr qint64 kBuildMs = 25;          // of one go at a long text
constexpr qsizetype kLongTable = 2'000;  // characters; longer open tables are redrawn rarely
constexpr int kTableMs = 300;

}  // namespace

MarkdownView::MarkdownView(QWidget* parent) : QWidget(parent), m_layout(new QVBoxLayout(this)) {
  m_layout->setContentsMargins(0, 0, 0, 0);
  m_layout->setSpacing(10);
  m_buildTimer.setSingleShot(true);
  m_buildTimer.setInterval(0);
  connect(&m_buildTimer, &QTimer::timeout, this, &MarkdownView::buildSome);
  m_tableTimer.setSingleShot(true);
  m_tableTimer.setInterval(kTableMs);
  connect(&m_tableTimer, &QTimer::timeout, this, [this] {
    for (const Segment& open : m_tail) {
      if (open.kind == Kind::Table) fill(open.widget, open.firstBlock, open.lastBlock);
    }
  });
}

void MarkdownView::setText(const QString& text) {
  m_splitter.clear();
  m_splitter.append(text);
  rebuild();
}

void MarkdownView::rebuild() {
  removeTail();
  for (const Segment& segment : m_segments) delete segment.widget;
  m_segments.clear();
  m_finished = 0;
  buildSome();
}

// Builds finished blocks for a moment, then lets the window breathe.
void MarkdownView::buildSome() {
  QElapsedTimer timer;
  timer.start();
  const auto& blocks = m_splitter.blocks();
  while (m_finished < blocks.size()) {
    if (timer.elapsed() > kBuildMs) {
      m_buildTimer.start();
      return;
    }
    // Neighbouring prose is parsed in one go.
    qsizetype end = m_finished + 1;
    if (blocks[m_finished].kind == Kind::Prose) {
      while (end < blocks.size() && blocks[end].kind == Kind::Prose &&
             blocks[end].end - blocks[m_finished].begin <= kMaxProse) {
        ++end;
      }
    }
    QWidget* widget = makeWidget(blocks[m_finished].kind);
    fill(widget, m_finished, end);
    m_layout->addWidget(widget);
    const qsizetype begin = blocks[m_finished].begin;
    m_segments.push_back(
        {blocks[m_finished].kind, m_finished, end, begin, blocks[end - 1].end - begin, widget});
    m_finished = end;
  }
}

void MarkdownView::append(const QString& text) {
  if (m_buildTimer.isActive()) {
    m_buildTimer.stop();
    while (m_finished < m_splitter.blocks().size()) buildSome();
    m_buildTimer.stop();
  }
  m_splitter.append(text);
  // A text that was set may have finished blocks that are open again now.
  if (m_splitter.firstChanged() < m_finished) {
    while (!m_segments.empty() && m_segments.back().lastBlock > m_splitter.firstChanged()) {
      m_finished = m_segments.back().firstBlock;
      delete m_segments.back().widget;
      m_segments.pop_back();
    }
  }
  // All but the last two blocks are final whatever comes.
  const qsizetype open = std::max(m_finished, m_splitter.blocks().size() - 2);
  if (m_finished < open) {
    removeTail();
    while (m_finished < open) addFinished(m_finished);
  }
  showTail(open);
}

void MarkdownView::finish() {
  const auto& blocks = m_splitter.blocks();
  if (m_tail.empty()) return;
  removeTail();
  while (m_finished < blocks.size()) addFinished(m_finished);
}

void MarkdownView::addFinished(qsizetype block) {
  const MarkdownBlock& added = m_splitter.blocks()[block];
  const qsizetype length = added.end - added.begin;
  const bool joins = added.kind == Kind::Prose && !m_segments.empty() &&
                     m_segments.back().kind == Kind::Prose &&
                     m_segments.back().length + length <= kMaxProse;
  if (joins) {
    Segment& joined = m_segments.back();
    joined.lastBlock = block + 1;
    joined.length += length;
    fill(joined.widget, joined.firstBlock, joined.lastBlock);
  } else {
    QWidget* widget = makeWidget(added.kind);
    fill(widget, block, block + 1);
    m_layout->addWidget(widget);
    m_segments.push_back({added.kind, block, block + 1, added.begin, length, widget});
  }
  m_finished = block + 1;
}

void MarkdownView::showTail(qsizetype firstOpen) {
  const auto& blocks = m_splitter.blocks();
  const auto count = static_cast<std::size_t>(blocks.size() - firstOpen);
  for (std::size_t i = 0; i < count; ++i) {
    const qsizetype block = firstOpen + static_cast<qsizetype>(i);
    const Kind kind = blocks[block].kind;
    if (i < m_tail.size() && m_tail[i].kind != kind) {
      while (m_tail.size() > i) {
        delete m_tail.back().widget;
        m_tail.pop_back();
      }
    }
    const qsizetype length = blocks[block].end - blocks[block].begin;
    if (i == m_tail.size()) {
      QWidget* widget = makeWidget(kind);
      m_layout->addWidget(widget);
      m_tail.push_back({kind, block, block + 1, -1, -1, widget});
    }
    Segment& open = m_tail[i];
    open.firstBlock = block;
    open.lastBlock = block + 1;
    if (open.begin == blocks[block].begin && open.length == length) continue;
    open.begin = blocks[block].begin;
    open.length = length;
    if (kind == Kind::Table && length > kLongTable) {
      if (!m_tableTimer.isActive()) m_tableTimer.start();
    } else {
      fill(open.widget, block, block + 1);
    }
  }
  while (m_tail.size() > count) {
    delete m_tail.back().widget;
    m_tail.pop_back();
  }
}

void MarkdownView::removeTail() {
  m_tableTimer.stop();
  for (const Segment& open : m_tail) delete open.widget;
  m_tail.clear();
}

QWidget* MarkdownView::makeWidget(Kind kind) {
  if (kind == Kind::Code) return new CodeBlock(this);
  return new ProseView(this);
}

void MarkdownView::fill(QWidget* widget, qsizetype firstBlock, qsizetype lastBlock) {
  const MarkdownBlock& block = m_splitter.blocks()[firstBlock];
  const QStringView source = m_splitter.source(block);
  switch (block.kind) {
    case Kind::Prose:
      static_cast<ProseView*>(widget)->setProse(preparedProse(sourceOf(firstBlock, lastBlock)));
      break;
    case Kind::Code:
      static_cast<CodeBlock*>(widget)->setCode(codeContent(source), block.language);
      break;
    case Kind::Math: {
      QFont font = monospaceFont(widget->font());
      widget->setFont(font);
      static_cast<ProseView*>(widget)->setPlain(mathContent(source));
      static_cast<ProseView*>(widget)->selectAll();
      static_cast<ProseView*>(widget)->setAlignment(Qt::AlignHCenter);
      static_cast<ProseView*>(widget)->setTextCursor(QTextCursor());
      break;
    }
    case Kind::Table:
      static_cast<ProseView*>(widget)->setTable(tableCells(source), tableAlignments(source));
      break;
  }
}

QString MarkdownView::sourceOf(qsizetype firstBlock, qsizetype lastBlock) const {
  const auto& blocks = m_splitter.blocks();
  const qsizetype begin = blocks[firstBlock].begin;
  return m_splitter.text().mid(begin, blocks[lastBlock - 1].end - begin);
}

void MarkdownView::changeEvent(QEvent* event) {
  // Colours are part of the documents.
  if (event->type() == QEvent::PaletteChange && !m_splitter.blocks().isEmpty()) rebuild();
  QWidget::changeEvent(event);
}

}  // namespace quire
