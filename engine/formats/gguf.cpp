#include "engine/formats/gguf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "engine/formats/gguf_header.h"
#include "engine/formats/gguf_split.h"
#include "engine/formats/mapped_file.h"
#include "engine/formats/messages.h"

namespace quire {
namespace {

constexpr const char* kSplitCount = "split.count";
constexpr const char* kSplitNumber = "split.no";
constexpr const char* kSplitTensors = "split.tensors.count";
constexpr std::size_t kMaxNamesInSentence = 3;

struct Shard {
  std::unique_ptr<MappedFile> file;  // null when the bytes belong to the caller
  std::string label;
  GgufHeader header;
};

class LoadedGguf final : public GgufFile {
 public:
  explicit LoadedGguf(std::vector<Shard> shards) : shards_(std::move(shards)) {
    std::size_t count = 0;
    for (const Shard& shard : shards_) count += shard.header.tensors.size();
    tensors_.reserve(count);
    for (Shard& shard : shards_) {
      if (shard.file) files_.push_back(shard.file->path());
      for (TensorInfo& tensor : shard.header.tensors) {
        total_bytes_ += tensor.bytes;
        tensors_.push_back(std::move(tensor));
      }
      shard.header.tensors = {};
    }
    by_name_.reserve(tensors_.size());
    for (const TensorInfo& tensor : tensors_)
      if (!by_name_.emplace(tensor.name, &tensor).second) repeated_ = &tensor;
  }

  const TensorInfo* repeated() const { return repeated_; }

  const TensorInfo* find(std::string_view name) const override {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::size_t total_bytes() const override { return total_bytes_; }
  Status check_intact() const override {
    for (const Shard& shard : shards_)
      if (shard.file) QUIRE_RETURN_IF_ERROR(shard.file->check_intact());
    return Ok{};
  }
  void release(const TensorInfo& tensor) const override {
    for (const Shard& shard : shards_)
      if (shard.file) shard.file->release(tensor.data, tensor.bytes);
  }

  const std::map<std::string, GgufValue, std::less<>>& metadata() const override {
    return shards_.front().header.metadata;
  }
  int version() const override { return shards_.front().header.version; }
  const std::vector<std::string>& files() const override { return files_; }

 private:
  std::vector<Shard> shards_;
  std::vector<std::string> files_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
  std::size_t total_bytes_ = 0;
  const TensorInfo* repeated_ = nullptr;  // a tensor whose name another one has too
};

template <typename T>
const T* value_of(const GgufFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? nullptr : std::get_if<T>(&found->second.value);
}

template <typename T>
const T* array_of(const GgufFile& file, std::string_view key) {
  const auto* array = value_of<GgufValue::Array>(file, key);
  return array == nullptr ? nullptr : std::get_if<T>(array);
}

std::optional<std::int64_t> header_int(const GgufHeader& header, const char* key) {
  const auto found = header.metadata.find(key);
  if (found == header.metadata.end()) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&found->second.value);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

Result<Shard> open_shard(const std::string& path) {
  Shard shard;
  QUIRE_TRY(shard.file, MappedFile::open(path));
  shard.label = shard.file->label();
  auto header = read_gguf_header(shard.file->bytes(), shard.label);
  // A file that shrank gives nonsense; say why rather than what.
  QUIRE_RETURN_IF_ERROR(shard.file->check_intact());
  if (!header.ok()) return header.error();
  shard.file->release(shard.file->bytes().data(), shard.file->bytes().size());
  shard.header = std::move(header).value();
  return shard;
}

Status check_all_present(const GgufSplitName& name) {
  std::string missing;
  int num_missing = 0;
  for (int number = 1; number <= name.count; ++number) {
    const std::string path = split_file_name(name.prefix, number, name.count);
    if (access(path.c_str(), F_OK) == 0) continue;
    if (++num_missing <= static_cast<int>(kMaxNamesInSentence))
      missing += (missing.empty() ? "" : ", ") + quoted_file_name(path);
  }
  if (num_missing == 0) return Ok{};
  if (num_missing > static_cast<int>(kMaxNamesInSentence)) missing += ", ...";
  return make_error(ErrorCode::kModelNotFound,
                    fmt::format("{} of the model's {} parts {} missing: {}.", num_missing,
                                name.count, num_missing == 1 ? "is" : "are", missing));
}

// A part must say that it is part `number` of `count`.
Status check_part(const Shard& shard, int number, int count) {
  const auto stored_count = header_int(shard.header, kSplitCount);
  const auto stored_number = header_int(shard.header, kSplitNumber);
  if (stored_count == count && stored_number == number - 1) return Ok{};
  if (!stored_count || !stored_number)
    return make_error(ErrorCode::kBadModelFile,
                      fmt::format("{} should be part {} of {} of a model, but does not say that it "
                                  "is part of one.",
                                  shard.label, number, count));
  return make_error(
      ErrorCode::kBadModelFile,
      fmt::format("{} should be part {} of {} of a model, but says it is part {} of {}.",
                  shard.label, number, count, static_cast<std::uint64_t>(*stored_number) + 1,
                  *stored_count));
}

Status check_tensor_count(const std::vector<Shard>& shards) {
  std::int64_t found = 0;
  for (const Shard& shard : shards) found += static_cast<std::int64_t>(shard.header.tensors.size());
  const auto expected = header_int(shards.front().header, kSplitTensors);
  if (!expected || *expected == found) return Ok{};
  return make_error(ErrorCode::kBadModelFile,
                    fmt::format("{} says that its parts hold {} tensors together; they hold {}.",
                                shards.front().label, *expected, found));
}

// Opens the other parts of the set that `opened`, at `path`, belongs to.
Result<std::vector<Shard>> open_set(const std::string& path, Shard opened, std::int64_t count) {
  const auto name = parse_split_name(path);
  if (!name)
    return make_error(
        ErrorCode::kBadModelFile,
        fmt::format("{} is one of {} parts of a model, but its name does not end like "
                    "'-00001-of-{:05}.gguf', so the other parts cannot be found.",
                    opened.label, count, count));
  QUIRE_RETURN_IF_ERROR(check_part(opened, name->number, name->count));
  QUIRE_RETURN_IF_ERROR(check_all_present(*name));
  std::vector<Shard> shards;
  for (int number = 1; number <= name->count; ++number) {
    if (number == name->number) {
      shards.push_back(std::move(opened));
      continue;
    }
    QUIRE_TRY(Shard shard, open_shard(split_file_name(name->prefix, number, name->count)));
    QUIRE_RETURN_IF_ERROR(check_part(shard, number, name->count));
    shards.push_back(std::move(shard));
  }
  QUIRE_RETURN_IF_ERROR(check_tensor_count(shards));
  return shards;
}

Result<std::unique_ptr<GgufFile>> assemble(std::vector<Shard> shards) {
  const std::string label = shards.front().label;
  auto file = std::make_unique<LoadedGguf>(std::move(shards));
  if (file->repeated() != nullptr)
    return make_error(ErrorCode::kBadModelFile,
                      fmt::format("{} and its other parts have the tensor {} twice.", label,
                                  in_quotes(file->repeated()->name)));
  return std::unique_ptr<GgufFile>(std::move(file));
}

Result<std::unique_ptr<GgufFile>> open_all(const std::string& path) {
  QUIRE_TRY(Shard first, open_shard(path));
  const std::int64_t count = header_int(first.header, kSplitCount).value_or(1);
  std::vector<Shard> shards;
  if (count > 1) {
    QUIRE_TRY(shards, open_set(path, std::move(first), count));
  } else {
    shards.push_back(std::move(first));
  }
  return assemble(std::move(shards));
}

Error out_of_memory(const std::string& label) {
  return make_error(ErrorCode::kOutOfMemory,
                    fmt::format("There is not enough memory to read {}.", label));
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  try {
    return open_all(path);
  } catch (const std::bad_alloc&) {
    return out_of_memory(quoted_file_name(path));
  }
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::string_view bytes) {
  Shard shard;
  shard.label = "The file";
  try {
    QUIRE_TRY(shard.header, read_gguf_header(bytes, shard.label));
    std::vector<Shard> shards;
    shards.push_back(std::move(shard));
    return assemble(std::move(shards));
  } catch (const std::bad_alloc&) {
    return out_of_memory("the file");
  }
}

std::optional<std::int64_t> GgufFile::get_int(std::string_view key) const {
  const auto* value = value_of<std::int64_t>(*this, key);
  if (value == nullptr || metadata().find(key)->second.is_bool) return std::nullopt;
  return *value;
}

std::optional<double> GgufFile::get_float(std::string_view key) const {
  if (const auto* value = value_of<double>(*this, key)) return *value;
  const auto integer = get_int(key);
  return integer ? std::optional(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<bool> GgufFile::get_bool(std::string_view key) const {
  const auto* value = value_of<std::int64_t>(*this, key);
  if (value == nullptr || !metadata().find(key)->second.is_bool) return std::nullopt;
  return *value != 0;
}

const std::string* GgufFile::get_string(std::string_view key) const {
  return value_of<std::string>(*this, key);
}
const std::vector<std::string>* GgufFile::get_strings(std::string_view key) const {
  return array_of<std::vector<std::string>>(*this, key);
}
const std::vector<std::int64_t>* GgufFile::get_ints(std::string_view key) const {
  return array_of<std::vector<std::int64_t>>(*this, key);
}
const std::vector<double>* GgufFile::get_floats(std::string_view key) const {
  return array_of<std::vector<double>>(*this, key);
}

}  // namespace quire
