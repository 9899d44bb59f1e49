#pragma once

#include <QAbstractScrollArea>

#include "ui/engine_history.h"

namespace quire {

// One lane per request over time: waiting as an outline, each prefill chunk a block with its token
// count, decoding a line, a gap where it was preempted, and a cap saying how it ended. Newest lanes
// at the top; time runs to the right and follows the engine unless the person scrolled back.
class RequestLanes : public QAbstractScrollArea {
  Q_OBJECT
 public:
  explicit RequestLanes(const EngineHistory* history, QWidget* parent = nullptr);

  void refresh();
  void setHighlighted(RequestId request);
  QSize sizeHint() const override { return {320, 160}; }

 signals:
  void hovered(qint64 request);  // its id; -1: none

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool viewportEvent(QEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;

 private:
  struct Span {
    double begin = 0, end = 1;  // seconds shown
  };
  Span span() const;
  double xOf(double seconds, const Span& span) const;
  int laneHeight() const;
  int labelWidth() const;
  int laneAt(int y) const;  // index into the history's lanes, -1: none
  void paintLane(QPainter& painter, const Lane& lane, int top, const Span& span) const;
  void paintSegment(QPainter& painter, const LaneSegment& segment, const QRectF& rect,
                    const QColor& color) const;
  QString describe(const Lane& lane) const;
  QString ending(const Lane& lane) const;

  const EngineHistory* m_history;
  RequestId m_highlighted = kNoRequest;
  double m_seconds = 20;  // width of the time window; Ctrl + wheel changes it
};

}  // namespace quire
