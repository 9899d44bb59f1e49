#pragma once

#include <QWidget>

#include "engine/settings.h"
#include "ui/engine_client.h"

class QComboBox;
class QLabel;
class QPushButton;
class QSpinBox;

namespace quire {

class EngineLive;
class EnginePlots;

// The Engine page: the live panel, plots, the controls that hold and step the engine, and the
// settings: those that change at once and those that take effect with a reload.
class EnginePage : public QWidget {
  Q_OBJECT
 public:
  // `settings` may be null: changes then last until the program ends. Otherwise it must outlive the
  // page.
  explicit EnginePage(EngineClient* client, Settings* settings = nullptr,
                      QWidget* parent = nullptr);

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  QWidget* buildControls();
  QWidget* buildSettings();
  QWidget* buildReloadSettings();
  LoadOptions chosenOptions() const;
  void showOptions();
  void updateButtons();
  void updatePoolText();
  void reload();

  EngineClient* m_client;
  Settings* m_settings;
  EngineLive* m_live;
  std::shared_ptr<void> m_watch;
  EnginePlots* m_plots;
  QPushButton* m_pause = nullptr;
  QPushButton* m_step = nullptr;
  QPushButton* m_resetCache = nullptr;
  QPushButton* m_reload = nullptr;
  QSpinBox* m_blocks = nullptr;
  QSpinBox* m_swapBlocks = nullptr;
  QSpinBox* m_threads = nullptr;
  QComboBox* m_prefixIndex = nullptr;
  QComboBox* m_kvType = nullptr;
  QComboBox* m_pin = nullptr;
  QComboBox* m_priority = nullptr;
  QLabel* m_poolText = nullptr;
};

}  // namespace quire
