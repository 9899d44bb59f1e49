#include "engine/paths.h"

#include <cstdlib>
#include <filesystem>

namespace quire {
namespace {

constexpr const char* kFolder = "/quire";

std::string home() {
  const char* value = std::getenv("HOME");
  return value != nullptr && *value == '/' ? value : "/tmp";
}

std::string base(const char* variable, const std::string& fallback) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : fallback;
}

}  // namespace

std::string data_dir() {
  return base("XDG_DATA_HOME", home() + "/.local/share") + kFolder;
}
std::string models_dir() {
  return data_dir() + "/models";
}
std::string config_dir() {
  return base("XDG_CONFIG_HOME", home() + "/.config") + kFolder;
}
std::string state_dir() {
  return base("XDG_STATE_HOME", home() + "/.local/state") + kFolder;
}
std::string cache_dir() {
  return base("XDG_CACHE_HOME", home() + "/.cache") + kFolder;
}
std::string runtime_dir() {
  const std::string runtime = base("XDG_RUNTIME_DIR", "");
  return runtime.empty() ? state_dir() : runtime + kFolder;
}

bool ensure_dir(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) return true;
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && parent != path && !ensure_dir(parent.string())) return false;
  if (!fs::create_directory(path, error) && error) return false;
  fs::permissions(path, fs::perms::owner_all, error);
  return fs::is_directory(path);
}

}  // namespace quire
