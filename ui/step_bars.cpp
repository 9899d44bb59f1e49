#include "ui/step_bars.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "ui/request_color.h"

namespace quire {
namespace {

constexpr int kBarWidth = 8;
constexpr int kMargin = 6;

}  // namespace

StepBars::StepBars(const EngineHistory* history, QWidget* parent)
    : QWidget(parent), m_history(history) {
  setAccessibleName(tr("Steps"));
  setAccessibleDescription(
      tr("One bar per engine step: tokens decoded, prefilled and taken from the cache."));
}

void StepBars::setHighlighted(RequestId request) {
  m_highlighted = request;
  update();
}

QRectF StepBars::plotRect() const {
  const int left = fontMetrics().horizontalAdvance(QStringLiteral("0000")) + kMargin;
  return QRectF(left, kMargin + 8, width() - left - kMargin, height() - 2 * kMargin - 8);
}

int StepBars::barWidth() const {
  return kBarWidth;
}

double StepBars::heightOf(int tokens, int most) const {
  return std::sqrt(static_cast<double>(tokens) / std::max(1, most));
}

void StepBars::paintBar(QPainter& painter, const StepBar& bar, const QRectF& column,
                        int most) const {
  const Theme& theme = Theme::current();
  int below = 0;
  const auto stack = [&](int tokens, const QBrush& brush, const QColor& back) {
    if (tokens <= 0) return;
    const double bottom = column.bottom() - heightOf(below, most) * column.height();
    const double top = column.bottom() - heightOf(below + tokens, most) * column.height();
    const QRectF rect(column.left(), top, column.width(), std::max(1.0, bottom - top));
    if (back.isValid()) painter.fillRect(rect, back);
    painter.fillRect(rect, brush);
    below += tokens;
  };
  const auto shade = [&](RequestId request, QColor color) {
    return m_highlighted == kNoRequest || m_highlighted == request
               ? color
               : mixed(color, theme.surface, 0.3);
  };
  for (const ScheduledWork& work : bar.work) {
    if (work.kind == WorkKind::kDecode || work.kind == WorkKind::kVerify) {
      stack(work.num_tokens, shade(work.request, theme.textMuted), {});
    }
  }
  for (const ScheduledWork& work : bar.work) {
    if (work.kind == WorkKind::kPrefill || work.kind == WorkKind::kRecompute) {
      stack(work.num_tokens, shade(work.request, requestColor(work.request)), {});
    }
  }
  for (const ScheduledWork& work : bar.work) {
    const QColor color = shade(work.request, requestColor(work.request));
    stack(work.num_cached_tokens, QBrush(color, Qt::BDiagPattern),
          mixed(color, theme.surface, 0.2));
  }
  if (bar.outcome != StepOutcome::kCompleted) {
    painter.fillRect(QRectF(column.left(), column.bottom() - 2, column.width(), 2), theme.danger);
  }
  if (bar.preemptions > 0) {
    const double x = column.center().x();
    const QPointF triangle[] = {
        {x - 4, column.top() - 7}, {x + 4, column.top() - 7}, {x, column.top() - 1}};
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme.warning);
    painter.drawPolygon(triangle, 3);
  }
}

void StepBars::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::current();
  QPainter painter(this);
  painter.fillRect(rect(), theme.surface);
  const QRectF plot = plotRect();
  const auto& steps = m_history->steps();
  if (steps.empty()) {
    painter.setPen(theme.textMuted);
    painter.drawText(rect(), Qt::AlignCenter,
                     tr("No steps yet. Send a message to see the engine work."));
    return;
  }
  const int visible = std::max(1, static_cast<int>(plot.width()) / barWidth());
  const std::size_t first =
      steps.size() > static_cast<std::size_t>(visible) ? steps.size() - visible : 0;
  int most = 16;
  for (std::size_t i = first; i < steps.size(); ++i) {
    most = std::max(most, steps[i].decodeTokens + steps[i].prefillTokens + steps[i].cachedTokens);
  }
  painter.setPen(theme.textMuted);
  for (const int tokens : {1, most / 4, most}) {
    const double y = plot.bottom() - heightOf(tokens, most) * plot.height();
    painter.drawText(QRectF(0, y - 8, plot.left() - kMargin, 16), Qt::AlignRight | Qt::AlignVCenter,
                     QLocale().toString(tokens));
  }
  for (std::size_t i = first; i < steps.size(); ++i) {
    const double right = plot.right() - static_cast<double>(steps.size() - 1 - i) * barWidth();
    paintBar(painter, steps[i],
             QRectF(right - barWidth() + 1, plot.top(), barWidth() - 1, plot.height()), most);
  }
  painter.setPen(QPen(theme.accent, 1, Qt::DotLine));
  for (std::size_t i = std::max<std::size_t>(first, 1); i < steps.size(); ++i) {
    if (steps[i].prefillTokens == 0 || steps[i].prefillLimit == steps[i - 1].prefillLimit) continue;
    const double x = plot.right() - static_cast<double>(steps.size() - i) * barWidth();
    painter.drawLine(QPointF(x, plot.top()), QPointF(x, plot.bottom()));
  }
  const int budget = steps.back().budget;
  if (budget > 0 && budget <= most) {
    const double y = plot.bottom() - heightOf(budget, most) * plot.height();
    painter.setPen(QPen(theme.danger, 1, Qt::DashLine));
    painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y));
  }
  painter.setPen(theme.border);
  painter.drawLine(plot.bottomLeft(), plot.bottomRight());
}

const StepBar* StepBars::barAt(const QPoint& position) const {
  const auto& steps = m_history->steps();
  const double back = plotRect().right() - position.x();
  if (back < 0) return nullptr;
  const auto at = static_cast<std::size_t>(back / barWidth());
  return at < steps.size() ? &steps[steps.size() - 1 - at] : nullptr;
}

QString StepBars::describe(const StepBar& bar) const {
  QStringList lines{
      tr("Step %1, %2 ms (forward %3 ms)")
          .arg(bar.step)
          .arg(QLocale().toString(bar.totalMs, 'f', 1), QLocale().toString(bar.forwardMs, 'f', 1))};
  lines << tr("%n request(s)", nullptr, static_cast<int>(bar.work.size()));
  lines << tr("%1 decoded, %2 prefilled, %3 from the cache; budget %4")
               .arg(bar.decodeTokens)
               .arg(bar.prefillTokens)
               .arg(bar.cachedTokens)
               .arg(bar.budget);
  if (bar.prefillTokens > 0 && bar.prefillLimit > 0)
    lines << tr("At most %1 prefilled").arg(bar.prefillLimit);
  if (bar.preemptions > 0) lines << tr("%n request(s) preempted", nullptr, bar.preemptions);
  if (bar.evictions > 0) lines << tr("%n cached block(s) evicted", nullptr, bar.evictions);
  if (bar.outcome == StepOutcome::kCancelled) lines << tr("Cancelled: nothing was kept");
  if (bar.outcome == StepOutcome::kFailed) lines << tr("Failed");
  return lines.join(QLatin1Char('\n'));
}

bool StepBars::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const StepBar* bar = barAt(help->pos())) {
      QToolTip::showText(help->globalPos(), describe(*bar), this);
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  return QWidget::event(event);
}

}  // namespace quire
