#pragma once

#include <QWidget>

#include "ui/engine_history.h"

namespace quire {

// One stacked bar per step, newest at the right: decode tokens at the base, prefill in the
// requests' colours above, tokens taken from the prefix cache hatched on top (not computed). A line
// shows the token budget, marks show preemptions. The height axis is the square root of tokens, so
// that single decode tokens stay visible.
class StepBars : public QWidget {
  Q_OBJECT
 public:
  explicit StepBars(const EngineHistory* history, QWidget* parent = nullptr);

  void refresh() { update(); }
  void setHighlighted(RequestId request);
  QSize sizeHint() const override { return {320, 130}; }
  QSize minimumSizeHint() const override { return {160, 80}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int barWidth() const;
  const StepBar* barAt(const QPoint& position) const;
  double heightOf(int tokens, int most) const;  // share of the plot's height
  void paintBar(QPainter& painter, const StepBar& bar, const QRectF& column, int most) const;
  QRectF plotRect() const;
  QString describe(const StepBar& bar) const;

  const EngineHistory* m_history;
  RequestId m_highlighted = kNoRequest;
};

}  // namespace quire
