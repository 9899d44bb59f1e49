#pragma once

#include <QLabel>

namespace quire {

// One line of plain text that ends in "…" where there is no room; the whole is the tooltip unless
// another one was set.
class ElidedLabel : public QLabel {
  Q_OBJECT
 public:
  using QLabel::QLabel;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;
};

}  // namespace quire
