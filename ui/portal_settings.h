#pragma once

#include <QDBusVariant>
#include <QObject>
#include <QString>

namespace quire {

// The desktop's settings portal (org.freedesktop.portal.Settings): whether it prefers dark windows.
// Silent where there is no session bus or no portal.
class PortalSettings : public QObject {
  Q_OBJECT
 public:
  explicit PortalSettings(QObject* parent = nullptr);

 signals:
  void colorSchemeChanged(bool dark);  // also once, soon after construction

 private slots:
  void onSettingChanged(const QString& group, const QString& key, const QDBusVariant& value);

 private:
  void ask();
};

}  // namespace quire
