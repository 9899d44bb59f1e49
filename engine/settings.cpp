#include "engine/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/paths.h"

namespace quire {
namespace {

using Json = nlohmann::json;

// Reads typed fields of an object and remembers which had the wrong type.
class FieldReader {
 public:
  explicit FieldReader(const Json& object) : object_(object) {}

  template <typename T>
  void read(const char* name, T& target) {
    const auto it = object_.find(name);
    if (it == object_.end() || it->is_null()) return;
    if (!fits(*it, target)) {
      wrong_ += wrong_.empty() ? name : std::string(", ") + name;
      return;
    }
    target = it->template get<T>();
  }
  const std::string& wrong() const { return wrong_; }
  void add(const FieldReader& other) {
    if (!other.wrong_.empty()) wrong_ += (wrong_.empty() ? "" : ", ") + other.wrong_;
  }

 private:
  static bool fits(const Json& value, const std::string&) { return value.is_string(); }
  static bool fits(const Json& value, bool) { return value.is_boolean(); }
  static bool fits(const Json& value, int) {
    if (!value.is_number_integer()) return false;
    const auto number = value.get<std::int64_t>();
    return number >= 0 && number <= std::numeric_limits<int>::max();
  }
  static bool fits(const Json& value, std::uint64_t) { return value.is_number_unsigned(); }
  static bool fits(const Json& value, const std::vector<std::string>&) {
    if (!value.is_array()) return false;
    return std::all_of(value.begin(), value.end(),
                       [](const Json& item) { return item.is_string(); });
  }

  const Json& object_;
  std::string wrong_;
};

const Json& section(const Json& root, const char* name) {
  static const Json empty = Json::object();
  const auto it = root.find(name);
  return it != root.end() && it->is_object() ? *it : empty;
}

void read_load_options(FieldReader& reader, LoadOptions& load) {
  reader.read("backend", load.backend);
  reader.read("num_threads", load.num_threads);
  reader.read("num_blocks", load.num_blocks);
  reader.read("kv_cache_bytes", load.kv_cache_bytes);
  reader.read("block_size", load.block_size);
  reader.read("max_num_seqs", load.max_num_seqs);
  reader.read("max_num_batched_tokens", load.max_num_batched_tokens);
  reader.read("max_model_len", load.max_model_len);
  reader.read("max_queue", load.max_queue);
  reader.read("enable_prefix_caching", load.enable_prefix_caching);
}

Json to_json(const LoadOptions& load) {
  return {{"backend", load.backend},
          {"num_threads", load.num_threads},
          {"num_blocks", load.num_blocks},
          {"kv_cache_bytes", load.kv_cache_bytes},
          {"block_size", load.block_size},
          {"max_num_seqs", load.max_num_seqs},
          {"max_num_batched_tokens", load.max_num_batched_tokens},
          {"max_model_len", load.max_model_len},
          {"max_queue", load.max_queue},
          {"enable_prefix_caching", load.enable_prefix_caching}};
}

Error write_error(const std::string& path) {
  return make_error(ErrorCode::kIo, "The settings could not be written to " + path + ".");
}

}  // namespace

std::string Settings::path() {
  return config_dir() + "/settings.json";
}

Settings Settings::load_file(std::string& warning) {
  Settings settings;
  std::ifstream file(path());
  if (!file) return settings;
  std::stringstream text;
  text << file.rdbuf();
  const Json root = Json::parse(text.str(), nullptr, false);
  if (!root.is_object()) {
    std::error_code ignored;
    std::filesystem::rename(path(), path() + ".bad", ignored);
    warning =
        "The settings file was unreadable and has been kept as settings.json.bad; defaults are in "
        "use.";
    return settings;
  }
  FieldReader top(root);
  top.read("version", settings.version);
  top.read("model", settings.model);
  top.read("model_folders", settings.model_folders);
  top.read("theme", settings.theme);
  top.read("load_marker", settings.load_marker);
  FieldReader load(section(root, "load"));
  read_load_options(load, settings.load);
  FieldReader server(section(root, "server"));
  server.read("autostart", settings.server.autostart);
  server.read("host", settings.server.host);
  server.read("port", settings.server.port);
  server.read("api_key", settings.server.api_key);
  top.add(load);
  top.add(server);
  if (!top.wrong().empty()) {
    warning = "These settings had values of the wrong kind and were set to their defaults: " +
              top.wrong() + ".";
  }
  settings.unknown_json_ = root.dump();
  return settings;
}

Status Settings::save() const {
  // Merged over what was read, so that keys of a newer version survive.
  Json root = unknown_json_.empty() ? Json::object() : Json::parse(unknown_json_, nullptr, false);
  if (!root.is_object()) root = Json::object();
  root.merge_patch({{"version", version},
                    {"model", model},
                    {"model_folders", model_folders},
                    {"theme", theme},
                    {"load_marker", load_marker},
                    {"load", to_json(load)},
                    {"server",
                     {{"autostart", server.autostart},
                      {"host", server.host},
                      {"port", server.port},
                      {"api_key", server.api_key}}}});
  const std::string text = root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string target = path(), temporary = target + ".new";
  if (!ensure_dir(config_dir())) return write_error(target);
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return write_error(target);
  const bool written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file) == 0;
  ::close(file);
  if (!written || std::rename(temporary.c_str(), target.c_str()) != 0) {
    ::unlink(temporary.c_str());
    return write_error(target);
  }
  return Ok{};
}

}  // namespace quire
