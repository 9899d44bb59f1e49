#pragma once

#include <string>

namespace quire {

// Folders of this program after the XDG base directory rules: $XDG_*_HOME/quire, relative values
// ignored. Read from the environment at each call. Nothing is created here.
std::string data_dir();    // $XDG_DATA_HOME/quire        (~/.local/share/quire): models, chats
std::string models_dir();  // data_dir()/models
std::string config_dir();  // $XDG_CONFIG_HOME/quire      (~/.config/quire): settings.json
std::string state_dir();   // $XDG_STATE_HOME/quire       (~/.local/state/quire): logs, window state
std::string cache_dir();   // $XDG_CACHE_HOME/quire
std::string runtime_dir();  // $XDG_RUNTIME_DIR/quire, or state_dir() when unset: sockets, locks

// Creates a folder and its parents with mode 0700. False if that failed.
bool ensure_dir(const std::string& path);

}  // namespace quire
