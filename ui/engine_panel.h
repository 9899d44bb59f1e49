#pragma once

#include <QWidget>

#include "ui/engine_client.h"

class QGridLayout;
class QLabel;
class QToolButton;

namespace quire {

class BlockMap;
class EngineLive;
class RequestLanes;
class StepBars;

// The live views for beside the chat: key figures, block map, step bars and request lanes. Takes
// frames only while it is visible.
class EnginePanel : public QWidget {
  Q_OBJECT
 public:
  explicit EnginePanel(EngineClient* client, QWidget* parent = nullptr);

  QSize sizeHint() const override { return {360, 640}; }

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  enum Figure {
    kRunning,
    kWaiting,
    kPool,
    kCached,
    kHits,
    kPreemptions,
    kDecode,
    kPrefill,
    kNumFigures
  };
  QWidget* buildFigures();
  QWidget* buildLegend();
  void refresh();
  void refreshFigures();
  void refreshState();

  EngineClient* m_client;
  EngineLive* m_live;
  std::shared_ptr<void> m_watch;
  QLabel* m_figures[kNumFigures] = {};
  QLabel* m_state;
  BlockMap* m_blocks;
  StepBars* m_steps;
  RequestLanes* m_lanes;
};

}  // namespace quire
