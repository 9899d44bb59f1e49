#include "ui/block_map.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QPainter>
#include <QToolTip>
#include <cmath>

#include "ui/request_color.h"

namespace quire {
namespace {

constexpr int kMaxCell = 22;     // device-independent pixels
constexpr int kGapFromCell = 4;  // smaller cells touch

}  // namespace

BlockMap::BlockMap(EngineHistory* history, QWidget* parent) : QWidget(parent), m_history(history) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Block map"));
  setAccessibleDescription(
      tr("One cell per block of the KV pool. Arrow keys move, the tooltip describes the block."));
}

BlockMap::Layout BlockMap::fit(int count, int width, int height) {
  if (count <= 0 || width <= 0 || height <= 0) return {};
  Layout best;
  for (int cell = std::min({kMaxCell * 4, width, height}); cell >= 1; --cell) {
    int columns = width / cell;
    // Powers of two keep ids readable in the head, as long as the rows still fit.
    int power = 1;
    while (power * 2 <= columns) power *= 2;
    for (const int candidate : {power, columns}) {
      const int rows = (count + candidate - 1) / candidate;
      if (static_cast<qint64>(rows) * cell <= height) return {cell, candidate, rows};
    }
  }
  // More blocks than pixels: one pixel each, the rest is cut off at the bottom.
  return {1, width, (count + width - 1) / width};
}

void BlockMap::refresh() {
  bool all = false;
  const std::vector<int> changed = m_history->takeChangedBlocks(all);
  const auto count = static_cast<int>(m_history->blocks().size());
  if (all || m_image.isNull() || m_layout.columns * m_layout.rows < count) {
    rebuild();
    update();
    return;
  }
  if (changed.empty()) return;
  QPainter painter(&m_image);
  for (const int block : changed) paintCell(painter, block);
  update();
}

void BlockMap::setHighlighted(RequestId request) {
  if (m_highlighted == request) return;
  m_highlighted = request;
  rebuild();
  update();
}

void BlockMap::rebuild() {
  const qreal ratio = devicePixelRatioF();
  const QSize size(static_cast<int>(width() * ratio), static_cast<int>(height() * ratio));
  const auto count = static_cast<int>(m_history->blocks().size());
  m_layout = fit(count, size.width(), size.height());
  const int most = static_cast<int>(kMaxCell * ratio);
  if (m_layout.cell > most) {
    m_layout.cell = most;
    int power = 1;
    while (power * 2 * most <= size.width()) power *= 2;
    m_layout.columns = power;
    m_layout.rows = (count + power - 1) / power;
    if (m_layout.rows * most > size.height()) {
      m_layout.columns = std::max(1, size.width() / most);
      m_layout.rows = (count + m_layout.columns - 1) / m_layout.columns;
    }
  }
  m_image = QImage(size, QImage::Format_RGB32);
  m_image.fill(Theme::current().surface);
  QPainter painter(&m_image);
  for (int block = 0; block < count; ++block) paintCell(painter, block);
}

QRect BlockMap::cellRect(int block) const {
  if (m_layout.columns == 0) return {};
  const int gap = m_layout.cell >= kGapFromCell ? 1 : 0;
  return QRect(block % m_layout.columns * m_layout.cell, block / m_layout.columns * m_layout.cell,
               m_layout.cell - gap, m_layout.cell - gap);
}

QColor BlockMap::cellColor(const BlockCell& cell) const {
  const Theme& theme = Theme::current();
  const QColor empty = mixed(theme.border, theme.surface, 0.55);
  if (cell.refCount == 0 && !cell.hashed) return empty;
  const QColor color = cell.owner == kNoRequest ? theme.textMuted : requestColor(cell.owner);
  const bool faded = m_highlighted != kNoRequest && cell.owner != m_highlighted;
  if (cell.refCount == 0) return mixed(color, theme.surface, faded ? 0.15 : 0.35);
  return faded ? mixed(color, theme.surface, 0.35) : color;
}

void BlockMap::paintCell(QPainter& painter, int block) const {
  const auto& blocks = m_history->blocks();
  if (block >= static_cast<int>(blocks.size())) return;
  const BlockCell& cell = blocks[static_cast<std::size_t>(block)];
  const QRect rect = cellRect(block);
  if (rect.isEmpty()) return;
  painter.fillRect(rect, cellColor(cell));
  if (m_layout.cell < kGapFromCell + 2) return;
  const Theme& theme = Theme::current();
  if (cell.refCount > 1) {  // shared: a dot in the middle, visible on any hue
    const int side = std::max(2, rect.width() / 3);
    QRect dot(0, 0, side, side);
    dot.moveCenter(rect.center());
    painter.fillRect(dot, theme.surface);
  } else if (cell.refCount == 0 && cell.hashed) {  // cached: a line at the foot
    painter.fillRect(QRect(rect.left(), rect.bottom() - std::max(1, rect.height() / 6) + 1,
                           rect.width(), std::max(1, rect.height() / 6)),
                     cell.owner == kNoRequest ? theme.textMuted : requestColor(cell.owner));
  }
}

void BlockMap::paintEvent(QPaintEvent*) {
  const qreal ratio = devicePixelRatioF();
  if (m_image.size() !=
      QSize(static_cast<int>(width() * ratio), static_cast<int>(height() * ratio)))
    rebuild();
  QPainter painter(this);
  QImage image = m_image;
  image.setDevicePixelRatio(ratio);
  painter.drawImage(QPoint(0, 0), image);
  if (hasFocus() && m_cursor >= 0) {
    const QRect cell = cellRect(m_cursor);
    painter.setPen(QPen(Theme::current().accent, 2));
    painter.drawRect(
        QRectF(cell.x() / ratio, cell.y() / ratio, cell.width() / ratio, cell.height() / ratio));
  }
}

void BlockMap::resizeEvent(QResizeEvent*) {
  rebuild();
}

void BlockMap::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) rebuild();
  QWidget::changeEvent(event);
}

int BlockMap::blockAt(const QPoint& position) const {
  if (m_layout.cell == 0) return -1;
  const qreal ratio = devicePixelRatioF();
  const int column = static_cast<int>(position.x() * ratio) / m_layout.cell;
  const int row = static_cast<int>(position.y() * ratio) / m_layout.cell;
  if (position.x() < 0 || position.y() < 0 || column >= m_layout.columns) return -1;
  const int block = row * m_layout.columns + column;
  return block < static_cast<int>(m_history->blocks().size()) ? block : -1;
}

QString BlockMap::describe(int block) const {
  const BlockCell& cell = m_history->blocks()[static_cast<std::size_t>(block)];
  QStringList lines{tr("Block %1").arg(block)};
  if (cell.refCount > 1) {
    lines << tr("Shared by %n request(s)", nullptr, cell.refCount);
  } else if (cell.refCount == 1) {
    lines << tr("In use");
  } else if (cell.hashed) {
    lines << tr("Free, still cached: a prompt with the same beginning adopts it");
  } else {
    lines << tr("Free");
  }
  if (cell.owner != kNoRequest && (cell.refCount > 0 || cell.hashed)) {
    const Lane* lane = m_history->lane(cell.owner);
    lines << (lane != nullptr && !lane->label.isEmpty()
                  ? tr("Taken by request %1 (%2)").arg(index(cell.owner)).arg(lane->label)
                  : tr("Taken by request %1").arg(index(cell.owner)));
  }
  if (cell.hashed && cell.refCount > 0) lines << tr("Full and published: others may adopt it");
  return lines.join(QLatin1Char('\n'));
}

void BlockMap::mouseMoveEvent(QMouseEvent* event) {
  const int block = blockAt(event->position().toPoint());
  emit hovered(
      index(block < 0 ? kNoRequest : m_history->blocks()[static_cast<std::size_t>(block)].owner));
}

void BlockMap::leaveEvent(QEvent*) {
  emit hovered(index(kNoRequest));
}

void BlockMap::keyPressEvent(QKeyEvent* event) {
  const auto count = static_cast<int>(m_history->blocks().size());
  int step = 0;
  switch (event->key()) {
    case Qt::Key_Left:
      step = -1;
      break;
    case Qt::Key_Right:
      step = 1;
      break;
    case Qt::Key_Up:
      step = -m_layout.columns;
      break;
    case Qt::Key_Down:
      step = m_layout.columns;
      break;
    default:
      QWidget::keyPressEvent(event);
      return;
  }
  if (count == 0) return;
  m_cursor = std::clamp(m_cursor < 0 ? 0 : m_cursor + step, 0, count - 1);
  const qreal ratio = devicePixelRatioF();
  const QRect cell = cellRect(m_cursor);
  QToolTip::showText(mapToGlobal(QPoint(static_cast<int>(cell.right() / ratio),
                                        static_cast<int>(cell.bottom() / ratio))),
                     describe(m_cursor), this);
  emit hovered(index(m_history->blocks()[static_cast<std::size_t>(m_cursor)].owner));
  update();
}

bool BlockMap::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const int block = blockAt(help->pos());
    if (block >= 0) {
      QToolTip::showText(help->globalPos(), describe(block), this);
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  return QWidget::event(event);
}

}  // namespace quire
