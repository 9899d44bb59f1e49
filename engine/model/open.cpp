#include "engine/model/open.h"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/formats/checked_json.h"
#include "engine/formats/gguf.h"
#include "engine/formats/hf_folder.h"
#include "engine/library.h"
#include "engine/model/architecture.h"
#include "engine/model/builtin_tiny.h"
#include "engine/model/read_config.h"

namespace quire {
namespace {

Result<OpenedModel> open_builtin() {
  OpenedModel model;
  model.name = kBuiltinTiny;
  model.format = "built-in";
  model.config = builtin_tiny_config();
  model.source = make_builtin_tiny_weights();
  model.chat_template = default_chat_template();
  model.make_tokenizer = [] { return Result<std::unique_ptr<Tokenizer>>(make_byte_tokenizer()); };
  QUIRE_TRY(model.tensors, locate_tensors(model.config, *model.source, hf_tensor_names()));
  return model;
}

Result<OpenedModel> open_folder(const std::filesystem::path& path) {
  QUIRE_TRY(auto folder, HfFolder::open(path.string()));
  OpenedModel model;
  const auto trimmed = path.has_filename() ? path : path.parent_path();
  model.name = trimmed.filename().string();
  model.format = "Hugging Face folder";
  QUIRE_TRY(model.config, config_from_json(folder->config_json()));
  QUIRE_TRY(model.tensors, locate_tensors(model.config, *folder, hf_tensor_names()));
  model.chat_template = folder->chat_template();
  if (model.chat_template.empty())
    model.chat_template = template_from_tokenizer_config(folder->tokenizer_config_json());
  model.make_tokenizer = [source = folder.get()]() -> Result<std::unique_ptr<Tokenizer>> {
    if (source->tokenizer_json().empty())
      return make_error(ErrorCode::kUnsupportedModel,
                        "The folder has no tokenizer.json, which is the only form of tokenizer "
                        "supported in folders.");
    return tokenizer_from_json(source->tokenizer_json(), source->tokenizer_config_json());
  };
  model.source = std::move(folder);
  return model;
}

Result<OpenedModel> open_gguf(const std::filesystem::path& path) {
  QUIRE_TRY(auto file, GgufFile::open(path.string()));
  OpenedModel model;
  const std::string* name = file->get_string("general.name");
  model.name = name != nullptr && !name->empty() ? *name : path.stem().string();
  model.format = "GGUF v" + std::to_string(file->version());
  QUIRE_TRY(model.config, config_from_gguf(*file));
  QUIRE_TRY(model.tensors, locate_tensors(model.config, *file, gguf_tensor_names()));
  if (const std::string* text = file->get_string("tokenizer.chat_template"))
    model.chat_template = *text;
  model.make_tokenizer = [source = file.get()] { return tokenizer_from_gguf(*source); };
  model.source = std::move(file);
  return model;
}

}  // namespace

Result<OpenedModel> open_model(const std::string& path) {
  if (path == kBuiltinTiny) return open_builtin();
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  return folder ? open_folder(path) : open_gguf(path);
}

std::string count_text(std::int64_t count) {
  static constexpr struct {
    double unit;
    const char* suffix;
  } kUnits[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, suffix] : kUnits) {
    const double value = static_cast<double>(count) / unit;
    if (value < 0.9995) continue;
    char text[32];
    std::snprintf(text, sizeof text, value < 9.95 ? "%.1f%s" : "%.0f%s", value, suffix);
    return text;
  }
  return std::to_string(count);
}

std::string template_from_tokenizer_config(std::string_view text) {
  using Json = nlohmann::json;
  const auto parsed = parse_checked_json(text, "tokenizer_config.json");
  if (!parsed.ok() || !parsed->is_object() || !parsed->contains("chat_template")) return {};
  const Json& value = (*parsed)["chat_template"];
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return {};
  for (const Json& entry : value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
    if (entry["name"] == "default" && entry["template"].is_string())
      return entry["template"].get<std::string>();
  }
  return {};
}

}  // namespace quire
