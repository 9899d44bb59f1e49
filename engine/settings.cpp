#include "engine/settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/load_config.h"
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
      mark_wrong(name);
      return;
    }
    target = it->template get<T>();
  }
  void mark_wrong(std::string_view name) {
    wrong_ += wrong_.empty() ? std::string(name) : ", " + std::string(name);
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
  static bool fits(const Json& value, double) {
    return value.is_number() && value.get<double>() >= 0;
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

// Kept as text, in the words of config_fields().
constexpr std::string_view kChoices[] = {"policy", "victim", "preemption_mode", "prefix_index"};

void read_choices(FieldReader& reader, LoadOptions& load) {
  EngineConfig config;
  apply_scheduling(load, config);
  for (const std::string_view name : kChoices) {
    std::string text;
    reader.read(name.data(), text);
    if (!text.empty() && !set_config_field(config, name, text).ok()) reader.mark_wrong(name);
  }
  keep_scheduling(config, load);
}

void read_prefill_chunk(FieldReader& reader, LoadOptions& load) {
  PrefillChunkPolicy chunk;
  int alone = -1, contended = -1;
  reader.read("prefill_chunk_alone", alone);
  reader.read("prefill_chunk_contended", contended);
  if (alone < 0 && contended < 0) return;
  if (alone >= 0) chunk.alone = alone;
  if (contended >= 0) chunk.contended = contended;
  load.prefill_chunk = chunk;
}

void read_load_options(FieldReader& reader, LoadOptions& load) {
  reader.read("backend", load.backend);
  reader.read("num_threads", load.num_threads);
  reader.read("cpu_pin", load.cpu_pin);
  reader.read("cpu_priority", load.cpu_priority);
  reader.read("kv_cache_dtype", load.kv_cache_dtype);
  reader.read("num_blocks", load.num_blocks);
  reader.read("kv_cache_bytes", load.kv_cache_bytes);
  reader.read("block_size", load.block_size);
  reader.read("max_num_seqs", load.max_num_seqs);
  reader.read("max_num_batched_tokens", load.max_num_batched_tokens);
  reader.read("max_model_len", load.max_model_len);
  reader.read("max_queue", load.max_queue);
  reader.read("enable_prefix_caching", load.enable_prefix_caching);
  reader.read("enable_chunked_prefill", load.enable_chunked_prefill);
  reader.read("long_prefill_token_threshold", load.long_prefill_token_threshold);
  reader.read("max_num_partial_prefills", load.max_num_partial_prefills);
  reader.read("max_itl_ms", load.max_itl_ms);
  reader.read("num_swap_blocks", load.num_swap_blocks);
  reader.read("swap_bytes", load.swap_bytes);
  reader.read("lpm_max_overtakes", load.lpm_max_overtakes);
  read_choices(reader, load);
  read_prefill_chunk(reader, load);
}

Json to_json(const LoadOptions& load) {
  Json json = {{"backend", load.backend},
               {"num_threads", load.num_threads},
               {"cpu_pin", load.cpu_pin},
               {"cpu_priority", load.cpu_priority},
               {"kv_cache_dtype", load.kv_cache_dtype},
               {"num_blocks", load.num_blocks},
               {"kv_cache_bytes", load.kv_cache_bytes},
               {"block_size", load.block_size},
               {"max_num_seqs", load.max_num_seqs},
               {"max_num_batched_tokens", load.max_num_batched_tokens},
               {"max_model_len", load.max_model_len},
               {"max_queue", load.max_queue},
               {"enable_prefix_caching", load.enable_prefix_caching},
               {"enable_chunked_prefill", load.enable_chunked_prefill},
               {"long_prefill_token_threshold", load.long_prefill_token_threshold},
               {"max_num_partial_prefills", load.max_num_partial_prefills},
               {"max_itl_ms", load.max_itl_ms},
               {"num_swap_blocks", load.num_swap_blocks},
               {"swap_bytes", load.swap_bytes},
               {"lpm_max_overtakes", load.lpm_max_overtakes}};
  EngineConfig config;
  apply_scheduling(load, config);
  for (const ConfigField& field : config_fields(config))
    if (std::ranges::find(kChoices, field.name) != std::end(kChoices))
      json[std::string(field.name)] = field.value;
  // Null removes what an older file said.
  json["prefill_chunk_alone"] = load.prefill_chunk ? Json(load.prefill_chunk->alone) : Json();
  json["prefill_chunk_contended"] =
      load.prefill_chunk ? Json(load.prefill_chunk->contended) : Json();
  return json;
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
