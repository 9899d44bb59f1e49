#pragma once

#include <string>
#include <vector>

#include "engine/model_host.h"
#include "engine/result.h"

namespace quire {

// What the window, the command line and the service share: $XDG_CONFIG_HOME/quire/settings.json,
// mode 0600 (it holds the API key). Unknown keys are kept; a field of the wrong type falls back to
// its default and is reported.
struct Settings {
  int version = 1;
  std::string model = "starter";  // loaded at start; as in resolve_model
  std::vector<std::string> model_folders;
  LoadOptions load;
  struct Server {
    bool autostart = true;  // with the window
    std::string host = "127.0.0.1";
    int port = 8080;
    std::string api_key;
  } server;
  std::string theme = "system";  // "system", "light", "dark"
  std::string
      load_marker;  // set while a load runs: the next start asks before loading that model again

  static std::string path();
  // A missing file gives defaults. A broken one gives defaults and a sentence in `warning`, and is
  // kept beside the new one as settings.json.bad.
  static Settings load_file(std::string& warning);
  // Written to a temporary file and renamed.
  Status save() const;

 private:
  std::string unknown_json_;  // keys we do not know, kept as they were
};

}  // namespace quire
