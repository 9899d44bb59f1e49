#include "engine/formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/formats/byte_reader.h"
#include "engine/formats/checked_json.h"
#include "engine/formats/hf_folder.h"
#include "engine/formats/messages.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadata = "__metadata__";

// Types of the format that we do not load, to tell them from nonsense.
constexpr std::array<std::string_view, 13> kOtherTypes{
    "BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16",    "U16",
    "I32",  "U32", "I64", "U64",     "F64",     "F8_E8M0"};

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16})
    if (dtype_info(dtype).name == name) return dtype;
  return std::nullopt;
}

std::optional<std::int64_t> count_of(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return static_cast<std::int64_t>(number);
}

class SafetensorsReader {
 public:
  SafetensorsReader(std::string_view bytes, const std::string& label)
      : bytes_(bytes), label_(label) {}

  Result<std::vector<TensorInfo>> read() {
    QUIRE_TRY(const std::string_view header, read_header());
    QUIRE_TRY(const Json root, parse_checked_json(header, label_ + " has a header that"));
    if (!root.is_object()) return bad("has a header that is not a JSON object.");
    std::vector<TensorInfo> tensors;
    for (const auto& [name, entry] : root.items()) {
      if (name == kMetadata) {
        QUIRE_RETURN_IF_ERROR(check_metadata(entry));
        continue;
      }
      QUIRE_TRY(TensorInfo tensor, read_tensor(name, entry));
      tensors.push_back(std::move(tensor));
    }
    QUIRE_RETURN_IF_ERROR(check_coverage(tensors));
    return tensors;
  }

 private:
  template <typename... Args>
  Error bad(fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(ErrorCode::kBadModelFile,
                      label_ + " " + fmt::format(text, std::forward<Args>(args)...));
  }

  Result<std::string_view> read_header();
  Status check_metadata(const Json& entry) const;
  Result<TensorInfo> read_tensor(const std::string& name, const Json& entry) const;
  Result<DType> read_dtype(const std::string& name, const Json& entry) const;
  Result<std::int64_t> read_shape(const std::string& name, const Json& entry,
                                  std::vector<std::int64_t>& shape) const;
  Status read_extent(const std::string& name, const Json& entry, TensorInfo& tensor) const;
  Status check_coverage(std::vector<TensorInfo>& tensors) const;

  std::string_view bytes_;
  std::string_view data_;
  const std::string& label_;
};

Result<std::string_view> SafetensorsReader::read_header() {
  ByteReader reader(bytes_);
  std::uint64_t size = 0;
  std::string_view header;
  if (is_foreign_to_safetensors(bytes_))
    return make_error(ErrorCode::kBadModelFile,
                      wrong_kind_sentence(label_, bytes_, "a safetensors file"));
  if (!reader.read(size)) return bad("is truncated: it has only {} bytes.", bytes_.size());
  if (size > kMaxHeaderBytes)
    return bad("is not a safetensors file: its header would be {} bytes long, more than {}.", size,
               kMaxHeaderBytes);
  if (!reader.read_bytes(size, header))
    return bad("is truncated: its header should be {} bytes long and the file has {}.", size,
               bytes_.size());
  if (header.empty() || header[0] != '{')
    return bad("is not a safetensors file: its header does not begin with '{{'.");
  data_ = bytes_.substr(reader.offset());
  return header;
}

Status SafetensorsReader::check_metadata(const Json& entry) const {
  const bool texts = entry.is_object() && std::all_of(entry.begin(), entry.end(),
                                                      [](const Json& v) { return v.is_string(); });
  if (!texts) return bad("has metadata that is not all text.");
  return Ok{};
}

Result<TensorInfo> SafetensorsReader::read_tensor(const std::string& name,
                                                  const Json& entry) const {
  if (!entry.is_object())
    return bad("has an entry for tensor {} that is no object.", in_quotes(name));
  TensorInfo tensor;
  tensor.name = name;
  QUIRE_TRY(tensor.dtype, read_dtype(name, entry));
  QUIRE_TRY(const std::int64_t elements, read_shape(name, entry, tensor.shape));
  QUIRE_RETURN_IF_ERROR(read_extent(name, entry, tensor));
  std::uint64_t expected = 0;
  const auto width = static_cast<std::uint64_t>(dtype_info(tensor.dtype).block_bytes);
  if (__builtin_mul_overflow(static_cast<std::uint64_t>(elements), width, &expected) ||
      expected != tensor.bytes)
    return bad("has tensor {} of {} {} elements in {} bytes.", in_quotes(name), elements,
               dtype_info(tensor.dtype).name, tensor.bytes);
  return tensor;
}

Result<DType> SafetensorsReader::read_dtype(const std::string& name, const Json& entry) const {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string())
    return bad("has tensor {} without a type.", in_quotes(name));
  const auto& type = found->get_ref<const std::string&>();
  if (const auto dtype = dtype_of(type)) return *dtype;
  if (std::find(kOtherTypes.begin(), kOtherTypes.end(), type) == kOtherTypes.end())
    return bad("has tensor {} of type {}, which the format does not define.", in_quotes(name),
               in_quotes(type));
  return make_error(ErrorCode::kUnsupportedModel,
                    fmt::format("{} stores tensor {} as type {}; only F32, F16 and BF16 are "
                                "supported.",
                                label_, in_quotes(name), type));
}

// Returns the number of elements.
Result<std::int64_t> SafetensorsReader::read_shape(const std::string& name, const Json& entry,
                                                   std::vector<std::int64_t>& shape) const {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array())
    return bad("has tensor {} without a shape.", in_quotes(name));
  std::int64_t elements = 1;
  bool overflows = false, empty = false;
  for (const Json& value : *found) {
    const auto dim = count_of(value);
    if (!dim) return bad("has tensor {} with a dimension that is no count.", in_quotes(name));
    shape.push_back(*dim);
    empty = empty || *dim == 0;
    overflows = overflows || __builtin_mul_overflow(elements, *dim, &elements);
  }
  if (empty) return std::int64_t{0};
  if (overflows)
    return bad("has tensor {} with more elements than can be counted.", in_quotes(name));
  return elements;
}

Status SafetensorsReader::read_extent(const std::string& name, const Json& entry,
                                      TensorInfo& tensor) const {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2)
    return bad("has tensor {} without data offsets.", in_quotes(name));
  const auto begin = count_of((*found)[0]);
  const auto end = count_of((*found)[1]);
  if (!begin || !end || *begin > *end)
    return bad("has tensor {} with data offsets that are no range.", in_quotes(name));
  if (static_cast<std::uint64_t>(*end) > data_.size())
    return bad("is truncated or corrupt: tensor {} ends at byte {} of {} bytes of data.",
               in_quotes(name), *end, data_.size());
  tensor.data = data_.data() + *begin;
  tensor.bytes = static_cast<std::size_t>(*end - *begin);
  return Ok{};
}

// Sorts by place. The data section must be used up exactly, so that nothing hides between tensors.
Status SafetensorsReader::check_coverage(std::vector<TensorInfo>& tensors) const {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.data, a.bytes) < std::pair(b.data, b.bytes);
  });
  const char* at = data_.data();
  for (const TensorInfo& tensor : tensors) {
    const auto* begin = static_cast<const char*>(tensor.data);
    if (begin < at) return bad("has tensor {} overlapping another.", in_quotes(tensor.name));
    if (begin > at)
      return bad("has {} unused bytes before tensor {}.", begin - at, in_quotes(tensor.name));
    at = begin + tensor.bytes;
  }
  const auto used = static_cast<std::size_t>(at - data_.data());
  if (used != data_.size())
    return bad("has {} bytes of data, of which its tensors use {}.", data_.size(), used);
  return Ok{};
}

}  // namespace

Result<std::vector<TensorInfo>> read_safetensors(std::string_view bytes, const std::string& label) {
  return SafetensorsReader(bytes, label).read();
}

Result<std::vector<TensorInfo>> parse_safetensors(std::string_view bytes) {
  try {
    return read_safetensors(bytes, "The file");
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory, "There is not enough memory to read the file.");
  }
}

}  // namespace quire
