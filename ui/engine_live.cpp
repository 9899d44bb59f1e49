#include "ui/engine_live.h"

#include <QPointer>

namespace quire {
namespace {

constexpr int kReleaseMs = 1500;

}  // namespace

EngineLive* EngineLive::of(EngineClient* client) {
  if (auto* live = client->findChild<EngineLive*>(QString(), Qt::FindDirectChildrenOnly))
    return live;
  return new EngineLive(client);
}

EngineLive::EngineLive(EngineClient* client) : QObject(client), m_client(client) {
  m_release.setSingleShot(true);
  m_release.setInterval(kReleaseMs);
  connect(&m_release, &QTimer::timeout, this, [this] { m_clientWatch.reset(); });
  connect(client, &EngineClient::frame, this, &EngineLive::takeFrame);
  connect(client, &EngineClient::snapshotReady, this, &EngineLive::takeSnapshot);
  connect(client, &EngineClient::modelChanged, this, [this] {
    m_history.clear();
    m_snapshotAsked = false;
    emit updated();
  });
}

std::shared_ptr<void> EngineLive::watch() {
  if (auto held = m_token.lock()) return held;
  m_release.stop();
  if (!m_clientWatch) {
    m_clientWatch = m_client->watch();
    m_history.expectGap();  // what happened while nobody watched is not in any frame
    m_snapshotAsked = false;
  }
  const QPointer<EngineLive> self(this);
  std::shared_ptr<void> token(m_clientWatch.get(), [self](void*) {
    if (self) self->m_release.start();
  });
  m_token = token;
  return token;
}

void EngineLive::takeFrame(const EngineFrame& frame) {
  const bool busy = !frame.records.empty() || !frame.arrivals.empty() || frame.lost > 0;
  m_history.apply(frame);
  if (m_history.needsSnapshot() && !m_snapshotAsked && m_client->model()) {
    m_snapshotAsked = true;
    m_client->requestSnapshot();
  }
  if (busy || !m_idle) emit updated();
  m_idle = !busy && m_history.running() + m_history.waiting() == 0;
}

void EngineLive::takeSnapshot(const std::shared_ptr<const EngineSnapshot>& snapshot) {
  if (!snapshot) return;
  m_snapshotAsked = false;
  m_history.rejoin(*snapshot);
  emit updated();
}

}  // namespace quire
