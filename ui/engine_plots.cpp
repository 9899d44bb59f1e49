#include "ui/engine_plots.h"

#include <qcustomplot.h>

#include <QVBoxLayout>
#include <algorithm>

#include "ui/theme.h"

namespace quire {
namespace {

constexpr double kShownSeconds = 60;

constexpr int kLeastHeight = 30;  // of the curves: three labels at the axis
constexpr int kRowSpacing = 2;

enum PlotRow { kPool, kHits, kRates, kPreemptions, kNumRows };

class SecondsTicker : public QCPAxisTicker {
 protected:
  QString getTickLabel(double tick, const QLocale& locale, QChar, int) override {
    return EnginePlots::tr("%1 s").arg(locale.toString(tick, 'f', 0));
  }
};

}  // namespace

EnginePlots::EnginePlots(const EngineHistory* history, QWidget* parent)
    : QWidget(parent), m_history(history), m_plot(new QCustomPlot(this)) {
  setAccessibleName(tr("Plots"));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_plot);
  m_plot->plotLayout()->clear();
  m_plot->plotLayout()->setRowSpacing(kRowSpacing);
  m_plot->setNotAntialiasedElements(QCP::aeAll);
  m_plots.push_back(addPlot(kPool, {tr("pool in use %"), tr("cached %")}));
  m_plots.push_back(addPlot(kHits, {tr("prefix hits %")}));
  m_plots.push_back(addPlot(kRates, {tr("decode tok/s"), tr("prefill tok/s")}));
  m_plots.push_back(addPlot(kPreemptions, {tr("preemptions")}));
  for (int row = 0; row + 1 < kNumRows; ++row) {
    m_plots[static_cast<std::size_t>(row)].rect->axis(QCPAxis::atBottom)->setTickLabels(false);
  }
  m_plots.back().rect->axis(QCPAxis::atBottom)->setTicker(QSharedPointer<SecondsTicker>::create());
  applyTheme();
  refresh();
}

EnginePlots::Plot EnginePlots::addPlot(int row, const QStringList& names) {
  Plot plot;
  plot.rect = new QCPAxisRect(m_plot);
  // One left edge for all, whatever the labels; above the curves a line for their names.
  const int textHeight = fontMetrics().height(), nameHeight = textHeight + 2;
  plot.rect->setAutoMargins(QCP::msNone);
  plot.rect->setMargins(QMargins(52, nameHeight, 14, row + 1 == kNumRows ? textHeight + 6 : 2));
  m_plot->plotLayout()->addElement(row, 0, plot.rect);
  auto* legend = new QCPLegend;
  plot.rect->insetLayout()->addElement(legend, Qt::AlignLeft | Qt::AlignTop);
  plot.rect->insetLayout()->setAutoMargins(QCP::msNone);
  plot.rect->insetLayout()->setMargins(QMargins(0, -nameHeight, 0, 0));
  legend->setFillOrder(QCPLegend::foColumnsFirst);
  legend->setMargins(QMargins(2, 0, 2, 0));
  legend->setIconSize(10, textHeight);
  legend->setLayer(QStringLiteral("legend"));
  for (const QString& name : names) {
    auto* graph =
        m_plot->addGraph(plot.rect->axis(QCPAxis::atBottom), plot.rect->axis(QCPAxis::atLeft));
    graph->setName(name);
    graph->removeFromLegend();
    legend->addItem(new QCPPlottableLegendItem(legend, graph));
    plot.graphs.push_back(graph);
  }
  plot.rect->axis(QCPAxis::atLeft)->ticker()->setTickCount(2);
  plot.rect->axis(QCPAxis::atBottom)->ticker()->setTickCount(6);
  return plot;
}

void EnginePlots::applyTheme() {
  const Theme& theme = Theme::current();
  m_plot->setBackground(theme.surface);
  const QColor colors[] = {theme.accent, theme.warning};
  for (Plot& plot : m_plots) {
    for (std::size_t i = 0; i < plot.graphs.size(); ++i)
      plot.graphs[i]->setPen(QPen(colors[i % 2], 1.5));
    for (QCPAxis* axis : plot.rect->axes()) {
      axis->setBasePen(QPen(theme.border));
      axis->setTickPen(QPen(theme.border));
      axis->setSubTickPen(Qt::NoPen);
      axis->setTickLabelColor(theme.textMuted);
      axis->setTickLabelFont(font());
      axis->setLabelColor(theme.textMuted);
      axis->setLabelFont(font());
      axis->grid()->setPen(QPen(theme.border, 0, Qt::DotLine));
    }
    for (QCPLayoutElement* element : plot.rect->insetLayout()->elements(false)) {
      auto* legend = qobject_cast<QCPLegend*>(element);
      if (legend == nullptr) continue;
      legend->setBrush(Qt::NoBrush);
      legend->setBorderPen(Qt::NoPen);
      legend->setTextColor(theme.text);
      legend->setFont(font());
    }
  }
  m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void EnginePlots::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) applyTheme();
  QWidget::changeEvent(event);
}

int EnginePlots::heightBesideCurves() const {
  int height = (kNumRows - 1) * kRowSpacing;
  for (const Plot& plot : m_plots)
    height += plot.rect->margins().top() + plot.rect->margins().bottom();
  return height;
}

QSize EnginePlots::minimumSizeHint() const {
  return {160, heightBesideCurves() + kNumRows * kLeastHeight};
}

// Rows share out the height so that the curves, not the rows, are of one height.
void EnginePlots::resizeEvent(QResizeEvent* event) {
  const int curves = std::max(kLeastHeight, (height() - heightBesideCurves()) / kNumRows);
  for (int row = 0; row < kNumRows; ++row) {
    const QMargins around = m_plots[static_cast<std::size_t>(row)].rect->margins();
    m_plot->plotLayout()->setRowStretchFactor(row, curves + around.top() + around.bottom());
  }
  QWidget::resizeEvent(event);
}

void EnginePlots::refresh() {
  const auto& points = m_history->points();
  const double end = points.empty() ? 0 : points.back().seconds;
  QVector<double> seconds, used, cached, hits, decode, prefill, preemptions;
  for (const PlotPoint& point : points) {
    if (point.seconds < end - kShownSeconds - 1) continue;
    seconds << point.seconds - end;
    used << 100 * point.usedShare;
    cached << 100 * point.cachedShare;
    hits << 100 * point.hitRate;
    decode << point.decodeRate;
    prefill << point.prefillRate;
    preemptions << point.preemptions;
  }
  const auto set = [&](int row, std::size_t graph, const QVector<double>& values) {
    m_plots[static_cast<std::size_t>(row)].graphs[graph]->setData(seconds, values, true);
  };
  set(kPool, 0, used);
  set(kPool, 1, cached);
  set(kHits, 0, hits);
  set(kRates, 0, decode);
  set(kRates, 1, prefill);
  set(kPreemptions, 0, preemptions);
  const auto top = [](const QVector<double>& values, double least) {
    return values.isEmpty() ? least
                            : std::max(least, *std::max_element(values.begin(), values.end()));
  };
  const double tops[] = {100, 100, std::max(top(decode, 10), top(prefill, 10)) * 1.1,
                         top(preemptions, 4) * 1.1};
  for (std::size_t row = 0; row < m_plots.size(); ++row) {
    m_plots[row].rect->axis(QCPAxis::atBottom)->setRange(-kShownSeconds, 0);
    m_plots[row].rect->axis(QCPAxis::atLeft)->setRange(0, tops[row]);
  }
  m_plot->replot(QCustomPlot::rpQueuedReplot);
}

}  // namespace quire
