#include "ui/portal_settings.h"

#include <QDBusConnection>
#include <QDBusMessage>
#include <QDBusPendingCallWatcher>
#include <QDBusPendingReply>
#include <QVariant>

namespace quire {
namespace {

const QString kPortalService = QStringLiteral("org.freedesktop.portal.Desktop");
const QString kPortalPath = QStringLiteral("/org/freedesktop/portal/desktop");
const QString kPortalInterface = QStringLiteral("org.freedesktop.portal.Settings");
const QString kAppearance = QStringLiteral("org.freedesktop.appearance");
const QString kColorScheme = QStringLiteral("color-scheme");
constexpr uint kPreferDark = 1;
constexpr int kTimeoutMs = 2000;

QVariant unwrapped(QVariant value) {
  while (value.canConvert<QDBusVariant>()) value = value.value<QDBusVariant>().variant();
  return value;
}

}  // namespace

PortalSettings::PortalSettings(QObject* parent) : QObject(parent) {
  QDBusConnection bus = QDBusConnection::sessionBus();
  if (!bus.isConnected()) return;
  bus.connect(kPortalService, kPortalPath, kPortalInterface, QStringLiteral("SettingChanged"), this,
              SLOT(onSettingChanged(QString, QString, QDBusVariant)));
  ask();
}

void PortalSettings::ask() {
  QDBusMessage call = QDBusMessage::createMethodCall(kPortalService, kPortalPath, kPortalInterface,
                                                     QStringLiteral("Read"));
  call << kAppearance << kColorScheme;
  auto* watcher =
      new QDBusPendingCallWatcher(QDBusConnection::sessionBus().asyncCall(call, kTimeoutMs), this);
  connect(watcher, &QDBusPendingCallWatcher::finished, this, [this, watcher] {
    const QDBusPendingReply<QDBusVariant> reply = *watcher;
    if (!reply.isError()) onSettingChanged(kAppearance, kColorScheme, reply.value());
    watcher->deleteLater();
  });
}

void PortalSettings::onSettingChanged(const QString& group, const QString& key,
                                      const QDBusVariant& value) {
  if (group != kAppearance || key != kColorScheme) return;
  bool ok = false;
  const uint scheme = unwrapped(value.variant()).toUInt(&ok);
  if (ok) emit colorSchemeChanged(scheme == kPreferDark);
}

}  // namespace quire
