#pragma once

#include <QString>

namespace quire {

// The log of the window: $XDG_STATE_HOME/quire/quire.log, at most a few megabytes with one older
// file kept. Carries no prompts and no answers.
QString logFilePath();

// Sends the program's log lines and Qt's warnings to the log file, and warnings to stderr too.
// Where the file cannot be written, stderr alone is used. Call once.
void startLogging();

}  // namespace quire
