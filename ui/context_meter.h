#pragma once

#include <QWidget>

#include "ui/engine_client.h"

namespace quire {

// How much of the context the conversation and the draft take: a bar and the two numbers.
class ContextMeter : public QWidget {
  Q_OBJECT
 public:
  explicit ContextMeter(QWidget* parent = nullptr);

  void setSize(const PromptSize& size);
  QString text() const;  // "1,204 of 8,192 tokens"; empty when nothing is known
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  PromptSize m_size;
};

}  // namespace quire
