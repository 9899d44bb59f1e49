#pragma once

#include <QWidget>

#include "ui/engine_history.h"

class QCPAxisRect;
class QCPGraph;
class QCustomPlot;

namespace quire {

// Pool use, prefix hit rate, preemptions and token rates over time, one above the other on a shared
// time axis.
class EnginePlots : public QWidget {
  Q_OBJECT
 public:
  explicit EnginePlots(const EngineHistory* history, QWidget* parent = nullptr);

  void refresh();
  QSize minimumSizeHint() const override;
  QSize sizeHint() const override { return {320, 320}; }

 protected:
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Plot {
    QCPAxisRect* rect = nullptr;
    std::vector<QCPGraph*> graphs;
  };
  Plot addPlot(int row, const QStringList& names);
  int heightBesideCurves() const;
  void applyTheme();

  const EngineHistory* m_history;
  QCustomPlot* m_plot;
  std::vector<Plot> m_plots;
};

}  // namespace quire
