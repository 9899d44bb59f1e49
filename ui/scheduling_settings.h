#pragma once

#include <QTimer>
#include <QWidget>

#include "engine/settings.h"
#include "ui/engine_client.h"

class QComboBox;
class QLabel;
class QSpinBox;

namespace quire {

// The engine's settings that change while a model is loaded. A change is sent to the engine a
// moment after the last key, without waiting for it, and kept in the settings file once the engine
// has taken it; one that it refuses is shown and put back.
class SchedulingSettings : public QWidget {
  Q_OBJECT
 public:
  // `settings` may be null; otherwise it must outlive the widget.
  SchedulingSettings(EngineClient* client, Settings* settings, QWidget* parent = nullptr);

 private:
  void showConfig();
  void apply();
  void finishApply(const QString& error);
  EngineConfig chosenConfig() const;

  EngineClient* m_client;
  Settings* m_settings;
  QTimer m_soon;
  bool m_asked = false;  // a change of ours is on its way
  QString m_note;        // what else had to change for it
  QSpinBox* m_alone = nullptr;
  QSpinBox* m_contended = nullptr;
  QSpinBox* m_pause = nullptr;
  QSpinBox* m_budget = nullptr;
  QSpinBox* m_seqs = nullptr;
  QComboBox* m_policy = nullptr;
  QComboBox* m_victim = nullptr;
  QComboBox* m_mode = nullptr;
  QLabel* m_state = nullptr;
};

}  // namespace quire
