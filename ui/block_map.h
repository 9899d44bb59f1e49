#pragma once

#include <QImage>
#include <QWidget>

#include "ui/engine_history.h"

namespace quire {

// The KV pool, one cell per block in physical order: coloured by request while referenced, dimmed
// while free but cached, marked when several requests share it. Below 3 pixels a cell is one solid
// pixel block. Draws into an image that is patched by the blocks that changed.
class BlockMap : public QWidget {
  Q_OBJECT
 public:
  explicit BlockMap(EngineHistory* history, QWidget* parent = nullptr);

  void refresh();  // after the history changed
  void setHighlighted(RequestId request);
  QSize sizeHint() const override { return {320, 220}; }
  QSize minimumSizeHint() const override { return {160, 80}; }

  struct Layout {
    int cell = 0;     // pixels, gap included; in device pixels
    int columns = 0;  // a power of two when the width allows
    int rows = 0;
  };
  // The largest cells with which `count` blocks fit into width x height device pixels.
  static Layout fit(int count, int width, int height);

 signals:
  void hovered(qint64 request);  // its id; -1: none

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void rebuild();
  void paintCell(QPainter& painter, int block) const;
  QColor cellColor(const BlockCell& cell) const;
  int blockAt(const QPoint& position) const;
  QRect cellRect(int block) const;  // device pixels
  QString describe(int block) const;

  EngineHistory* m_history;
  QImage m_image;
  Layout m_layout;
  RequestId m_highlighted = kNoRequest;
  int m_cursor = -1;  // block under the keyboard cursor
};

}  // namespace quire
