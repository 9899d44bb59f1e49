#pragma once

#include <QString>

#include "ui/chat_types.h"

namespace quire {

// Chat settings and answer statistics as JSON text for the database. Readers take what they
// understand and keep defaults for the rest; values out of range count as missing.
QString toJson(const ChatSettings& settings);
ChatSettings settingsFromJson(const QString& json);
QString toJson(const MessageStats& stats);
MessageStats statsFromJson(const QString& json);

}  // namespace quire
