#include <qcustomplot.h>

#include "tests/support/test_main.h"
#include "ui/engine_plots.h"

using namespace quire;

class TestEnginePlots : public QObject {
  Q_OBJECT
 private slots:
  void curvesAreOfOneHeightAndTheirNamesAboveThem_data();
  void curvesAreOfOneHeightAndTheirNamesAboveThem();
  void axesSayWhatTheyWillShow();
};

void TestEnginePlots::curvesAreOfOneHeightAndTheirNamesAboveThem_data() {
  QTest::addColumn<int>("height");
  for (const int height : {0, 333, 800}) QTest::addRow("%d", height) << height;
}

void TestEnginePlots::curvesAreOfOneHeightAndTheirNamesAboveThem() {
  QFETCH(int, height);
  EngineHistory history;
  EnginePlots plots(&history);
  plots.resize(300, std::max(height, plots.minimumSizeHint().height()));
  plots.show();
  auto* plot = plots.findChild<QCustomPlot*>();
  plot->replot();
  const QList<QCPAxisRect*> rects = plot->axisRects();
  QCOMPARE(rects.size(), 4);
  for (QCPAxisRect* rect : rects) {
    QVERIFY(rect->height() >= 29);
    QVERIFY(std::abs(rect->height() - rects.front()->height()) <= 1);
    const auto names = rect->insetLayout()->elements(false);
    QCOMPARE(names.size(), 1);
    QVERIFY(names.front()->outerRect().bottom() <= rect->top());
    QVERIFY(names.front()->outerRect().top() >= rect->outerRect().top());
  }
}

void TestEnginePlots::axesSayWhatTheyWillShow() {
  EngineHistory history;
  EnginePlots plots(&history);
  for (QCPAxisRect* rect : plots.findChild<QCustomPlot*>()->axisRects())
    QCOMPARE(rect->axis(QCPAxis::atBottom)->range(), QCPRange(-60, 0));
}

QUIRE_TEST(TestEnginePlots)
#include "tst_engine_plots.moc"
