#include "ui/request_lanes.h"

#include <QHelpEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "ui/request_color.h"

namespace quire {
namespace {

constexpr double kMinSeconds = 1, kMaxSeconds = 600;
constexpr int kTextFromWidth = 34;  // a segment narrower than this shows no token count

}  // namespace

RequestLanes::RequestLanes(const EngineHistory* history, QWidget* parent)
    : QAbstractScrollArea(parent), m_history(history) {
  setAccessibleName(tr("Requests over time"));
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setFrameShape(QFrame::NoFrame);
  viewport()->setMouseTracking(true);
}

int RequestLanes::laneHeight() const {
  return fontMetrics().height() + 8;
}
int RequestLanes::labelWidth() const {
  return std::min(150, width() / 3);
}

void RequestLanes::refresh() {
  const int content = static_cast<int>(m_history->lanes().size()) * laneHeight();
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setRange(0, std::max(0, content - viewport()->height()));
  viewport()->update();
}

void RequestLanes::setHighlighted(RequestId request) {
  m_highlighted = request;
  viewport()->update();
}

void RequestLanes::resizeEvent(QResizeEvent*) {
  refresh();
}

RequestLanes::Span RequestLanes::span() const {
  // While nothing runs the picture stands still at the last thing that happened.
  double end = 0;
  for (const Lane& lane : m_history->lanes()) {
    const double last = lane.live() ? m_history->nowSeconds() : lane.endSeconds;
    end = std::max(end, last);
  }
  return {end - m_seconds, end};
}

double RequestLanes::xOf(double seconds, const Span& span) const {
  const double left = labelWidth();
  const double share = (seconds - span.begin) / (span.end - span.begin);
  return left + std::clamp(share, 0.0, 1.0) * (viewport()->width() - left - 4);
}

void RequestLanes::paintSegment(QPainter& painter, const LaneSegment& segment, const QRectF& rect,
                                const QColor& color) const {
  const Theme& theme = Theme::current();
  switch (segment.kind) {
    case LaneKind::kPrefill: {
      painter.fillRect(rect, color);
      if (segment.cachedTokens > 0) {
        const QRectF cached(rect.left() - 5, rect.top(), 5, rect.height());
        painter.fillRect(cached, mixed(color, theme.surface, 0.25));
        painter.fillRect(cached, QBrush(color, Qt::BDiagPattern));
      }
      if (rect.width() >= kTextFromWidth) {
        painter.setPen(color.lightnessF() > 0.52 ? Qt::black : Qt::white);
        painter.drawText(rect, Qt::AlignCenter, QLocale().toString(segment.tokens));
      }
      break;
    }
    case LaneKind::kDecode:
      painter.fillRect(QRectF(rect.left(), rect.center().y() - 2, rect.width(), 4), color);
      break;
    case LaneKind::kPreempted:
      painter.fillRect(QRectF(rect.left() - 1, rect.top(), 3, rect.height()), theme.warning);
      break;
    case LaneKind::kQueued:
      painter.setPen(QPen(theme.textMuted, 1, Qt::DotLine));
      painter.drawLine(QPointF(rect.left(), rect.center().y()),
                       QPointF(rect.right(), rect.center().y()));
      break;
  }
}

void RequestLanes::paintLane(QPainter& painter, const Lane& lane, int top, const Span& span) const {
  const Theme& theme = Theme::current();
  const bool faded = m_highlighted != kNoRequest && m_highlighted != lane.request;
  QColor color = requestColor(lane.request);
  if (faded) color = mixed(color, theme.surface, 0.3);
  const int height = laneHeight();
  painter.fillRect(QRect(2, top + height / 2 - 4, 8, 8), color);
  painter.setPen(faded ? theme.textMuted : theme.text);
  const QString name = lane.label.isEmpty()
                           ? tr("request %1").arg(index(lane.request))
                           : QStringLiteral("%1 · %2").arg(index(lane.request)).arg(lane.label);
  painter.drawText(QRect(14, top, labelWidth() - 18, height), Qt::AlignVCenter,
                   fontMetrics().elidedText(name, Qt::ElideRight, labelWidth() - 18));
  const auto rectOf = [&](double begin, double end) {
    const double left = xOf(begin, span), right = xOf(end, span);
    return QRectF(left, top + 3, std::max(1.0, right - left), height - 6);
  };
  if (lane.segments.empty() && !lane.live() && lane.endSeconds < span.begin) return;
  const double firstWork = lane.segments.empty()
                               ? (lane.live() ? m_history->nowSeconds() : lane.endSeconds)
                               : lane.segments.front().beginSeconds;
  if (firstWork > span.begin && firstWork > lane.arrivalSeconds) {
    paintSegment(painter, {LaneKind::kQueued, lane.arrivalSeconds, firstWork, 0, 0, 0, 0},
                 rectOf(lane.arrivalSeconds, firstWork), color);
  }
  for (const LaneSegment& segment : lane.segments) {
    if (segment.endSeconds < span.begin) continue;
    paintSegment(painter, segment, rectOf(segment.beginSeconds, segment.endSeconds), color);
  }
  if (lane.live() && lane.wait.reason != WaitReason::kNone && !lane.segments.empty()) {
    paintSegment(
        painter,
        {LaneKind::kQueued, lane.segments.back().endSeconds, m_history->nowSeconds(), 0, 0, 0, 0},
        rectOf(lane.segments.back().endSeconds, m_history->nowSeconds()), color);
  }
  if (!lane.live() && lane.endSeconds >= span.begin) {
    const QRectF cap = rectOf(lane.endSeconds, lane.endSeconds);
    const QColor end = lane.finish == FinishReason::kError     ? theme.danger
                       : lane.finish == FinishReason::kAborted ? theme.textMuted
                                                               : color;
    painter.fillRect(QRectF(cap.left() - 1, cap.top(), 3, cap.height()), end);
  }
}

void RequestLanes::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::current();
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), theme.surface);
  const auto& lanes = m_history->lanes();
  if (lanes.empty()) {
    painter.setPen(theme.textMuted);
    painter.drawText(viewport()->rect(), Qt::AlignCenter, tr("No requests yet."));
    return;
  }
  const Span shown = span();
  const int height = laneHeight();
  int top = -verticalScrollBar()->value();
  for (auto lane = lanes.rbegin(); lane != lanes.rend(); ++lane, top += height) {
    if (top + height < 0) continue;
    if (top > viewport()->height()) break;
    paintLane(painter, *lane, top, shown);
  }
}

int RequestLanes::laneAt(int y) const {
  const int at = (y + verticalScrollBar()->value()) / laneHeight();
  const auto count = static_cast<int>(m_history->lanes().size());
  return at >= 0 && at < count ? count - 1 - at : -1;
}

QString RequestLanes::ending(const Lane& lane) const {
  switch (lane.finish) {
    case FinishReason::kNone:
      return {};
    case FinishReason::kStop:
      return tr("ended by itself");
    case FinishReason::kLength:
      return tr("ended at its length limit");
    case FinishReason::kAborted:
      return tr("stopped");
    case FinishReason::kError:
      return tr("failed");
  }
  return {};
}

QString RequestLanes::describe(const Lane& lane) const {
  QStringList lines{tr("Request %1 %2").arg(index(lane.request)).arg(lane.label).trimmed()};
  lines << tr("%1 prompt tokens (%2 from the cache), %3 output tokens")
               .arg(lane.promptTokens)
               .arg(lane.cachedTokens)
               .arg(lane.outputTokens);
  if (lane.firstTokenSeconds >= 0) {
    lines << tr("First token after %1 s")
                 .arg(QLocale().toString(lane.firstTokenSeconds - lane.arrivalSeconds, 'f', 2));
  }
  if (lane.preemptions > 0) lines << tr("Preempted %n time(s)", nullptr, lane.preemptions);
  switch (lane.live() ? lane.wait.reason : WaitReason::kNone) {
    case WaitReason::kNone:
      break;
    case WaitReason::kBlocks:
      lines << tr("Waits for %n more block(s)", nullptr, lane.wait.shortfall);
      break;
    case WaitReason::kTokenBudget:
      lines << tr("Waits: the step's token budget is spent");
      break;
    case WaitReason::kSeqs:
      lines << tr("Waits: as many requests as allowed are running");
      break;
    case WaitReason::kPreemption:
      lines << tr("Waits: memory was just taken from a running request");
      break;
    case WaitReason::kBehind:
      lines << tr("Waits behind %n request(s)", nullptr, lane.wait.shortfall);
      break;
    case WaitReason::kAging:
      lines << tr("Waits for a request that was passed over often enough");
      break;
    case WaitReason::kSwapped:
      lines << tr("In host memory; needs %n more block(s) to return", nullptr, lane.wait.shortfall);
      break;
    case WaitReason::kPartialPrefills:
      lines << tr("Waits: as many prompts as allowed are being read");
      break;
  }
  if (!lane.live()) lines << ending(lane);
  return lines.join(QLatin1Char('\n'));
}

bool RequestLanes::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const int at = laneAt(help->pos().y());
    if (at >= 0) {
      QToolTip::showText(help->globalPos(),
                         describe(m_history->lanes()[static_cast<std::size_t>(at)]), viewport());
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  if (event->type() == QEvent::MouseMove) {
    const int at = laneAt(static_cast<QMouseEvent*>(event)->position().toPoint().y());
    emit hovered(
        index(at < 0 ? kNoRequest : m_history->lanes()[static_cast<std::size_t>(at)].request));
  }
  if (event->type() == QEvent::Leave) emit hovered(index(kNoRequest));
  return QAbstractScrollArea::viewportEvent(event);
}

void RequestLanes::wheelEvent(QWheelEvent* event) {
  if (event->modifiers() & Qt::ControlModifier) {
    const double factor = std::pow(1.2, -event->angleDelta().y() / 120.0);
    m_seconds = std::clamp(m_seconds * factor, kMinSeconds, kMaxSeconds);
    viewport()->update();
    event->accept();
    return;
  }
  QAbstractScrollArea::wheelEvent(event);
}

}  // namespace quire
