#pragma once

#include <QObject>
#include <QTimer>

#include "ui/engine_client.h"
#include "ui/engine_history.h"

namespace quire {

// The engine's recent history, kept up to date while some view is shown. One per client, shared by
// its views.
class EngineLive : public QObject {
  Q_OBJECT
 public:
  // The one of this client, made at the first call and owned by the client.
  static EngineLive* of(EngineClient* client);

  EngineHistory* history() { return &m_history; }
  // Frames are taken while at least one token is held, and a little longer, so that going from one
  // page with views to another misses nothing.
  std::shared_ptr<void> watch();

 signals:
  void updated();                    // the history changed: views redraw
  void highlighted(qint64 request);  // the id of the request pointed at; -1: none

 private:
  explicit EngineLive(EngineClient* client);
  void takeFrame(const EngineFrame& frame);
  void takeSnapshot(const std::shared_ptr<const EngineSnapshot>& snapshot);

  EngineClient* m_client;
  EngineHistory m_history;
  std::shared_ptr<void> m_clientWatch;  // held from the first token to a little after the last
  std::weak_ptr<void> m_token;
  QTimer m_release;
  bool m_snapshotAsked = false;
  bool m_idle = false;  // the last frame brought nothing and the views show it
};

}  // namespace quire
