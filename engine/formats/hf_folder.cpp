#include "engine/formats/hf_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "engine/formats/checked_json.h"
#include "engine/formats/mapped_file.h"
#include "engine/formats/messages.h"
#include "engine/formats/safetensors.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kMaxConfigBytes = 16 * kMiB;
constexpr std::size_t kMaxTokenizerBytes = 256 * kMiB;
constexpr std::size_t kMaxTemplateBytes = 4 * kMiB;
constexpr std::size_t kMaxIndexBytes = 100 * kMiB;
constexpr std::size_t kMaxShards = 1024;
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr std::string_view kWeightsSuffix = ".safetensors";

// Which shard each tensor is in, from the index file; empty for a single file.
using WeightMap = std::map<std::string, std::string>;

Error bad(std::string message) {
  return make_error(ErrorCode::kBadModelFile, std::move(message));
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

Status check_folder(const std::string& folder) {
  const std::string label = quoted_file_name(folder);
  const Error denied = make_error(ErrorCode::kPermissionDenied,
                                  fmt::format("You have no permission to open {}.", label));
  struct stat info = {};
  errno = 0;
  const bool found = folder.find('\0') == std::string::npos && stat(folder.c_str(), &info) == 0;
  if (!found && errno == EACCES) return denied;
  if (!found)
    return make_error(ErrorCode::kModelNotFound, fmt::format("{} does not exist.", label));
  if (!S_ISDIR(info.st_mode))
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is not a folder.", label));
  if (access(folder.c_str(), R_OK | X_OK) != 0) return denied;
  return Ok{};
}

// A whole text file of at most `max_bytes`.
Result<std::string> read_text(const std::string& path, std::size_t max_bytes) {
  QUIRE_TRY(const std::unique_ptr<MappedFile> file, MappedFile::open(path));
  if (file->bytes().size() > max_bytes)
    return bad(fmt::format("{} has {} bytes; at most {} are expected.", file->label(),
                           file->bytes().size(), max_bytes));
  std::string text(file->bytes());
  QUIRE_RETURN_IF_ERROR(file->check_intact());
  if (is_lfs_pointer(text)) return bad(wrong_kind_sentence(file->label(), text, "a text file"));
  return text;
}

Result<std::string> read_optional_text(const std::string& path, std::size_t max_bytes) {
  if (!exists(path)) return std::string();
  return read_text(path, max_bytes);
}

// A name from an index may only be that of a safetensors file in the folder itself.
bool is_plain_name(const std::string& name) {
  return name.size() > kWeightsSuffix.size() && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
         std::string_view(name).substr(name.size() - kWeightsSuffix.size()) == kWeightsSuffix;
}

Result<WeightMap> read_index(const std::string& path) {
  const std::string label = quoted_file_name(path);
  QUIRE_TRY(const std::string text, read_text(path, kMaxIndexBytes));
  QUIRE_TRY(const Json root, parse_checked_json(text, label));
  const auto found = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || found == root.end() || !found->is_object() || found->empty())
    return bad(fmt::format("{} has no weight map.", label));
  WeightMap map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string())
      return bad(fmt::format("{} names no file for tensor {}.", label, in_quotes(tensor)));
    const auto& name = file.get_ref<const std::string&>();
    if (!is_plain_name(name))
      return bad(fmt::format("{} names {}, which is not a safetensors file in the folder.", label,
                             in_quotes(name)));
    map.emplace(tensor, name);
  }
  return map;
}

std::vector<std::string> shard_names(const WeightMap& map) {
  std::map<std::string, bool> unique;
  for (const auto& entry : map) unique.emplace(entry.second, true);
  std::vector<std::string> names;
  for (const auto& entry : unique) names.push_back(entry.first);
  return names;
}

Status check_shards_present(const std::string& folder, const std::vector<std::string>& names) {
  if (names.size() > kMaxShards)
    return bad(fmt::format("{} names {} files; at most {} are possible.", in_quotes(kIndex),
                           names.size(), kMaxShards));
  std::string missing;
  std::size_t num_missing = 0;
  for (const std::string& name : names) {
    if (exists(folder + "/" + name)) continue;
    if (++num_missing <= 3) missing += (missing.empty() ? "" : ", ") + in_quotes(name);
  }
  if (num_missing == 0) return Ok{};
  return make_error(
      ErrorCode::kModelNotFound,
      fmt::format("{} of the model's {} weight files {} missing: {}{}.", num_missing, names.size(),
                  num_missing == 1 ? "is" : "are", missing, num_missing > 3 ? ", ..." : ""));
}

class LoadedHfFolder final : public HfFolder {
 public:
  Status load(const std::string& folder) {
    QUIRE_RETURN_IF_ERROR(check_folder(folder));
    QUIRE_RETURN_IF_ERROR(load_texts(folder));
    QUIRE_RETURN_IF_ERROR(load_weights(folder));
    align_tensors();
    by_name_.reserve(tensors_.size());
    for (const TensorInfo& tensor : tensors_) by_name_.emplace(tensor.name, &tensor);
    return check_intact();
  }

  const TensorInfo* find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::size_t total_bytes() const override { return total_bytes_; }
  Status check_intact() const override {
    for (const auto& file : files_) QUIRE_RETURN_IF_ERROR(file->check_intact());
    return Ok{};
  }
  void release(const TensorInfo& tensor) const override {
    for (const auto& file : files_) file->release(tensor.data, tensor.bytes);
  }
  const std::string& config_json() const override { return config_json_; }
  const std::string& tokenizer_json() const override { return tokenizer_json_; }
  const std::string& tokenizer_config_json() const override { return tokenizer_config_json_; }
  const std::string& chat_template() const override { return chat_template_; }

 private:
  Status load_texts(const std::string& folder) {
    if (!exists(folder + "/config.json"))
      return bad(
          fmt::format("The folder {} has no 'config.json', so it is not a Hugging Face model.",
                      quoted_file_name(folder)));
    QUIRE_TRY(config_json_, read_text(folder + "/config.json", kMaxConfigBytes));
    QUIRE_TRY(tokenizer_json_, read_optional_text(folder + "/tokenizer.json", kMaxTokenizerBytes));
    QUIRE_TRY(tokenizer_config_json_,
              read_optional_text(folder + "/tokenizer_config.json", kMaxTokenizerBytes));
    QUIRE_TRY(chat_template_,
              read_optional_text(folder + "/chat_template.jinja", kMaxTemplateBytes));
    return Ok{};
  }

  Status load_weights(const std::string& folder) {
    if (exists(folder + "/" + kWeights)) return load_file(folder, kWeights, nullptr);
    if (!exists(folder + "/" + kIndex)) return no_weights(folder);
    QUIRE_TRY(const WeightMap map, read_index(folder + "/" + kIndex));
    const std::vector<std::string> names = shard_names(map);
    QUIRE_RETURN_IF_ERROR(check_shards_present(folder, names));
    for (const std::string& name : names) QUIRE_RETURN_IF_ERROR(load_file(folder, name, &map));
    if (tensors_.size() == map.size()) return Ok{};
    return missing_tensor(map);
  }

  static Error no_weights(const std::string& folder) {
    const bool pickled =
        exists(folder + "/pytorch_model.bin") || exists(folder + "/pytorch_model.bin.index.json");
    return make_error(
        pickled ? ErrorCode::kUnsupportedModel : ErrorCode::kBadModelFile,
        fmt::format("The folder {} has no '{}'{}.", quoted_file_name(folder), kWeights,
                    pickled ? "; its PyTorch weights must be converted to safetensors first" : ""));
  }

  // With a map, every tensor of the file must be listed there as this file's.
  Status load_file(const std::string& folder, const std::string& name, const WeightMap* map) {
    QUIRE_TRY(std::unique_ptr<MappedFile> file, MappedFile::open(folder + "/" + name));
    auto tensors = read_safetensors(file->bytes(), file->label());
    QUIRE_RETURN_IF_ERROR(file->check_intact());
    if (!tensors.ok()) return tensors.error();
    for (TensorInfo& tensor : *tensors) {
      if (map != nullptr) {
        const auto listed = map->find(tensor.name);
        if (listed == map->end() || listed->second != name)
          return bad(fmt::format("{} holds tensor {}, which the index does not place there.",
                                 file->label(), in_quotes(tensor.name)));
      }
      total_bytes_ += tensor.bytes;
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(std::move(file));
    return Ok{};
  }

  Error missing_tensor(const WeightMap& map) const {
    std::unordered_map<std::string_view, bool> present;
    for (const TensorInfo& tensor : tensors_) present.emplace(tensor.name, true);
    for (const auto& [tensor, file] : map)
      if (present.count(tensor) == 0)
        return bad(fmt::format("{} should hold tensor {}, but does not.", in_quotes(file),
                               in_quotes(tensor)));
    return bad(fmt::format("{} does not match the weight files.", in_quotes(kIndex)));
  }

  // The format lets data start anywhere, kernels read whole elements: the few tensors that lie at
  // odd addresses move to memory of our own.
  void align_tensors() {
    for (TensorInfo& tensor : tensors_) {
      const auto width = static_cast<std::uintptr_t>(dtype_info(tensor.dtype).block_bytes);
      if (tensor.bytes == 0 || reinterpret_cast<std::uintptr_t>(tensor.data) % width == 0) continue;
      moved_.push_back(std::make_unique<std::byte[]>(tensor.bytes));
      std::memcpy(moved_.back().get(), tensor.data, tensor.bytes);
      tensor.data = moved_.back().get();
    }
  }

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<std::unique_ptr<std::byte[]>> moved_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
  std::size_t total_bytes_ = 0;
  std::string config_json_, tokenizer_json_, tokenizer_config_json_, chat_template_;
};

}  // namespace

Result<std::unique_ptr<HfFolder>> HfFolder::open(const std::string& folder) {
  try {
    auto loaded = std::make_unique<LoadedHfFolder>();
    QUIRE_RETURN_IF_ERROR(loaded->load(folder));
    return std::unique_ptr<HfFolder>(std::move(loaded));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory, fmt::format("There is not enough memory to read {}.",
                                                           quoted_file_name(folder)));
  }
}

}  // namespace quire
