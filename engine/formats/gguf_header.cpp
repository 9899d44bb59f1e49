#include "engine/formats/gguf_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "engine/formats/byte_reader.h"
#include "engine/formats/gguf_types.h"
#include "engine/formats/messages.h"

namespace quire {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr const char* kAlignmentKey = "general.alignment";

// The format's numbers for kinds of metadata values.
enum ValueType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

// Encoded bytes of a value, at least.
std::size_t min_bytes(std::uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool:
      return 1;
    case kUint16:
    case kInt16:
      return 2;
    case kUint32:
    case kInt32:
    case kFloat32:
      return 4;
    default:
      return 8;
  }
}

struct RawTensor {
  std::string name;
  std::vector<std::uint64_t> dims;  // innermost first, as stored
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // from the start of the data section
};

class HeaderReader {
 public:
  HeaderReader(std::string_view bytes, const std::string& label)
      : bytes_(bytes), reader_(bytes), label_(label) {}

  Result<GgufHeader> read() {
    std::uint64_t num_tensors = 0, num_keys = 0;
    QUIRE_RETURN_IF_ERROR(read_start(num_tensors, num_keys));
    QUIRE_RETURN_IF_ERROR(read_metadata(num_keys));
    QUIRE_TRY(const std::uint64_t alignment, read_alignment());
    QUIRE_RETURN_IF_ERROR(read_tensor_entries(num_tensors));
    QUIRE_RETURN_IF_ERROR(place_tensors(alignment));
    return std::move(header_);
  }

 private:
  template <typename... Args>
  Error bad(fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(ErrorCode::kBadModelFile,
                      label_ + " " + fmt::format(text, std::forward<Args>(args)...));
  }
  template <typename... Args>
  Error unsupported(fmt::format_string<Args...> text, Args&&... args) const {
    return make_error(ErrorCode::kUnsupportedModel,
                      label_ + " " + fmt::format(text, std::forward<Args>(args)...));
  }
  Error truncated(const std::string& what) const {
    return bad("is truncated: it ends after {} bytes, inside {}.", bytes_.size(), what);
  }

  Status read_start(std::uint64_t& num_tensors, std::uint64_t& num_keys);
  Status read_metadata(std::uint64_t num_keys);
  Result<std::string> read_string(std::uint64_t max_bytes, const std::string& what);
  Result<GgufValue> read_value(std::uint32_t type, const std::string& key);
  Result<GgufValue> read_array(const std::string& key);
  Result<GgufValue::Array> read_elements(std::uint32_t type, std::uint64_t count,
                                         const std::string& key);
  Status read_integer(std::uint32_t type, const std::string& key, std::int64_t& value);
  Status read_float(std::uint32_t type, const std::string& key, double& value);
  Result<std::uint64_t> read_alignment() const;
  Status read_tensor_entries(std::uint64_t num_tensors);
  Result<RawTensor> read_tensor_entry(std::uint64_t index);
  Status place_tensors(std::uint64_t alignment);
  Result<TensorInfo> place_tensor(const RawTensor& raw, std::uint64_t alignment,
                                  std::string_view data) const;
  Status check_overlaps() const;

  std::string_view bytes_;
  ByteReader reader_;
  const std::string& label_;
  GgufHeader header_;
  std::vector<RawTensor> raw_tensors_;
  std::uint64_t array_elements_left_ = GgufLimits::kMaxArrayElements;
};

Status HeaderReader::read_start(std::uint64_t& num_tensors, std::uint64_t& num_keys) {
  std::string_view magic;
  if (!reader_.read_bytes(kMagic.size(), magic) || magic != kMagic)
    return make_error(ErrorCode::kBadModelFile, wrong_kind_sentence(label_, bytes_, "a GGUF file"));
  std::uint32_t version = 0;
  if (!reader_.read(version)) return truncated("its header");
  // A big-endian file's version has its digits in the top byte.
  if (version != 0 && (version & 0xffffu) == 0)
    return unsupported("is a big-endian GGUF file, which is not supported.");
  if (version != 2 && version != 3)
    return unsupported("is GGUF version {}; versions 2 and 3 are supported.", version);
  header_.version = static_cast<int>(version);
  if (!reader_.read(num_tensors) || !reader_.read(num_keys)) return truncated("its header");
  // A tensor entry takes at least 33 bytes, a key 14.
  if (num_tensors > std::min<std::uint64_t>(GgufLimits::kMaxTensors, reader_.remaining() / 33))
    return bad("claims {} tensors, more than its {} bytes can describe.", num_tensors,
               bytes_.size());
  if (num_keys > std::min<std::uint64_t>(GgufLimits::kMaxKeys, reader_.remaining() / 14))
    return bad("claims {} metadata keys, more than its {} bytes can hold.", num_keys,
               bytes_.size());
  return Ok{};
}

Status HeaderReader::read_metadata(std::uint64_t num_keys) {
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    QUIRE_TRY(std::string key,
              read_string(GgufLimits::kMaxKeyBytes, fmt::format("metadata key {}", i + 1)));
    if (key.empty()) return bad("has a metadata key without a name.");
    std::uint32_t type = 0;
    if (!reader_.read(type)) return truncated("metadata key " + in_quotes(key));
    QUIRE_TRY(GgufValue value, read_value(type, key));
    const auto [position, inserted] =
        header_.metadata.try_emplace(std::move(key), std::move(value));
    if (!inserted) return bad("has the metadata key {} twice.", in_quotes(position->first));
  }
  return Ok{};
}

Result<std::string> HeaderReader::read_string(std::uint64_t max_bytes, const std::string& what) {
  std::uint64_t length = 0;
  if (!reader_.read(length)) return truncated(what);
  if (length > reader_.remaining())
    return bad("is truncated or corrupt: {} claims {} bytes of text where {} are left.", what,
               length, reader_.remaining());
  if (length > max_bytes)
    return bad("has {} bytes of text in {}; at most {} are allowed.", length, what, max_bytes);
  std::string_view text;
  if (!reader_.read_bytes(length, text)) return truncated(what);
  return std::string(text);
}

Result<GgufValue> HeaderReader::read_value(std::uint32_t type, const std::string& key) {
  GgufValue result;
  if (type == kArray) return read_array(key);
  if (type == kString) {
    QUIRE_TRY(result.value, read_string(std::numeric_limits<std::uint64_t>::max(),
                                        "metadata key " + in_quotes(key)));
  } else if (type == kFloat32 || type == kFloat64) {
    double value = 0;
    QUIRE_RETURN_IF_ERROR(read_float(type, key, value));
    result.value = value;
  } else if (type <= kFloat64) {
    std::int64_t value = 0;
    QUIRE_RETURN_IF_ERROR(read_integer(type, key, value));
    result.value = value;
    result.is_bool = type == kBool;
  } else {
    return bad("has metadata key {} of type {}, which GGUF does not define.", in_quotes(key), type);
  }
  return result;
}

Result<GgufValue> HeaderReader::read_array(const std::string& key) {
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  if (!reader_.read(type) || !reader_.read(count))
    return truncated("metadata key " + in_quotes(key));
  if (type == kArray)
    return unsupported("has metadata key {} holding arrays of arrays, which are not supported.",
                       in_quotes(key));
  if (type > kFloat64)
    return bad("has metadata key {} holding an array of type {}, which GGUF does not define.",
               in_quotes(key), type);
  if (count > reader_.remaining() / min_bytes(type))
    return bad(
        "is truncated or corrupt: metadata key {} claims {} elements where {} bytes are left.",
        in_quotes(key), count, reader_.remaining());
  if (count > array_elements_left_)
    return bad("has more than {} metadata array elements (in key {}).",
               GgufLimits::kMaxArrayElements, in_quotes(key));
  array_elements_left_ -= count;
  GgufValue result;
  QUIRE_TRY(result.value, read_elements(type, count, key));
  result.is_bool = type == kBool;
  return result;
}

Result<GgufValue::Array> HeaderReader::read_elements(std::uint32_t type, std::uint64_t count,
                                                     const std::string& key) {
  const auto size = static_cast<std::size_t>(count);  // at most kMaxArrayElements
  if (type == kString) {
    std::vector<std::string> strings;
    strings.reserve(size);
    const std::string what = "metadata key " + in_quotes(key);
    for (std::size_t i = 0; i < size; ++i) {
      QUIRE_TRY(std::string text, read_string(std::numeric_limits<std::uint64_t>::max(), what));
      strings.push_back(std::move(text));
    }
    return GgufValue::Array(std::move(strings));
  }
  if (type == kFloat32 || type == kFloat64) {
    std::vector<double> floats(size);
    for (double& value : floats) QUIRE_RETURN_IF_ERROR(read_float(type, key, value));
    return GgufValue::Array(std::move(floats));
  }
  std::vector<std::int64_t> integers(size);
  for (std::int64_t& value : integers) QUIRE_RETURN_IF_ERROR(read_integer(type, key, value));
  return GgufValue::Array(std::move(integers));
}

template <typename T>
bool read_widened(ByteReader& reader, std::int64_t& value) {
  T narrow = 0;
  if (!reader.read(narrow)) return false;
  value = static_cast<std::int64_t>(narrow);
  return true;
}

bool read_any_integer(ByteReader& reader, std::uint32_t type, std::int64_t& value) {
  switch (type) {
    case kUint8:
    case kBool:
      return read_widened<std::uint8_t>(reader, value);
    case kInt8:
      return read_widened<std::int8_t>(reader, value);
    case kUint16:
      return read_widened<std::uint16_t>(reader, value);
    case kInt16:
      return read_widened<std::int16_t>(reader, value);
    case kUint32:
      return read_widened<std::uint32_t>(reader, value);
    case kInt32:
      return read_widened<std::int32_t>(reader, value);
    default:
      return read_widened<std::int64_t>(reader, value);
  }
}

Status HeaderReader::read_integer(std::uint32_t type, const std::string& key, std::int64_t& value) {
  if (!read_any_integer(reader_, type, value)) return truncated("metadata key " + in_quotes(key));
  if (type == kUint64 && value < 0)
    return bad("has the number {} in metadata key {}, which is out of range.",
               static_cast<std::uint64_t>(value), in_quotes(key));
  if (type == kBool && value > 1)
    return bad("has the value {} in metadata key {}, which must be 0 or 1.", value, in_quotes(key));
  return Ok{};
}

Status HeaderReader::read_float(std::uint32_t type, const std::string& key, double& value) {
  float narrow = 0;
  const bool complete = type == kFloat64 ? reader_.read(value) : reader_.read(narrow);
  if (!complete) return truncated("metadata key " + in_quotes(key));
  if (type == kFloat32) value = narrow;
  return Ok{};
}

Result<std::uint64_t> HeaderReader::read_alignment() const {
  const auto found = header_.metadata.find(kAlignmentKey);
  if (found == header_.metadata.end()) return kDefaultAlignment;
  const auto* value = std::get_if<std::int64_t>(&found->second.value);
  if (value == nullptr || found->second.is_bool) return bad("has an alignment that is no number.");
  // The format asks for a multiple of 8; kernels rely on it to read whole floats.
  const bool power_of_two = *value > 0 && (*value & (*value - 1)) == 0;
  if (!power_of_two || *value < 8 || *value > std::int64_t{1} << 31)
    return bad("has an alignment of {} bytes; it must be a power of two from 8 up.", *value);
  return static_cast<std::uint64_t>(*value);
}

Status HeaderReader::read_tensor_entries(std::uint64_t num_tensors) {
  std::unordered_set<std::string_view> names;
  raw_tensors_.reserve(static_cast<std::size_t>(num_tensors));  // bounded in read_start
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    QUIRE_TRY(RawTensor raw, read_tensor_entry(i));
    raw_tensors_.push_back(std::move(raw));
    if (!names.insert(raw_tensors_.back().name).second)
      return bad("has the tensor {} twice.", in_quotes(raw_tensors_.back().name));
  }
  return Ok{};
}

Result<RawTensor> HeaderReader::read_tensor_entry(std::uint64_t index) {
  RawTensor raw;
  QUIRE_TRY(raw.name, read_string(GgufLimits::kMaxTensorNameBytes,
                                  fmt::format("the name of tensor {}", index + 1)));
  if (raw.name.empty()) return bad("has a tensor without a name.");
  const std::string what = "the entry of tensor " + in_quotes(raw.name);
  std::uint32_t num_dims = 0;
  if (!reader_.read(num_dims)) return truncated(what);
  if (num_dims == 0 || num_dims > GgufLimits::kMaxDims)
    return bad("has tensor {} with {} dimensions; 1 to {} are possible.", in_quotes(raw.name),
               num_dims, GgufLimits::kMaxDims);
  raw.dims.resize(num_dims);
  for (std::uint64_t& dim : raw.dims)
    if (!reader_.read(dim)) return truncated(what);
  if (!reader_.read(raw.type) || !reader_.read(raw.offset)) return truncated(what);
  return raw;
}

Status HeaderReader::place_tensors(std::uint64_t alignment) {
  if (raw_tensors_.empty()) return Ok{};
  const std::uint64_t begin = (reader_.offset() + alignment - 1) / alignment * alignment;
  if (begin > bytes_.size()) return truncated("the padding before its tensors");
  const std::string_view data = bytes_.substr(static_cast<std::size_t>(begin));
  header_.tensors.reserve(raw_tensors_.size());
  for (const RawTensor& raw : raw_tensors_) {
    QUIRE_TRY(TensorInfo tensor, place_tensor(raw, alignment, data));
    header_.tensors.push_back(std::move(tensor));
  }
  return check_overlaps();
}

Result<TensorInfo> HeaderReader::place_tensor(const RawTensor& raw, std::uint64_t alignment,
                                              std::string_view data) const {
  const std::string name = in_quotes(raw.name);
  const std::optional<DType> dtype = dtype_of_gguf_type(raw.type);
  if (!dtype)
    return unsupported("stores tensor {} as type {}, which is not supported.", name,
                       gguf_type_name(raw.type));
  TensorInfo tensor{raw.name, *dtype, {}, nullptr, 0};
  std::int64_t elements = 1;
  for (auto dim = raw.dims.rbegin(); dim != raw.dims.rend(); ++dim) {
    if (*dim == 0) return bad("has tensor {} with a dimension of 0.", name);
    if (__builtin_mul_overflow(elements, *dim, &elements))
      return bad("has tensor {} with more elements than can be counted.", name);
    tensor.shape.push_back(static_cast<std::int64_t>(*dim));
  }
  const DTypeInfo& info = dtype_info(*dtype);
  if (tensor.shape.back() % info.block_elements != 0)
    return bad("has tensor {} of type {} with rows of {} elements, not a multiple of {}.", name,
               info.name, tensor.shape.back(), info.block_elements);
  std::uint64_t size = 0;
  const auto blocks = static_cast<std::uint64_t>(elements / info.block_elements);
  const bool too_large =
      __builtin_mul_overflow(blocks, static_cast<std::uint64_t>(info.block_bytes), &size);
  if (raw.offset % alignment != 0)
    return bad("has tensor {} at offset {}, which is not aligned to {} bytes.", name, raw.offset,
               alignment);
  if (too_large || raw.offset > data.size() || size > data.size() - raw.offset)
    return bad(
        "is truncated or corrupt: tensor {} needs {} bytes at offset {} of a data section of "
        "{} bytes.",
        name, size, raw.offset, data.size());
  tensor.data = data.data() + raw.offset;
  tensor.bytes = static_cast<std::size_t>(size);
  return tensor;
}

Status HeaderReader::check_overlaps() const {
  std::vector<const TensorInfo*> order;
  order.reserve(header_.tensors.size());
  for (const TensorInfo& tensor : header_.tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->data < b->data; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const char* end = static_cast<const char*>(order[i - 1]->data) + order[i - 1]->bytes;
    if (end > static_cast<const char*>(order[i]->data))
      return bad("has tensors {} and {} overlapping.", in_quotes(order[i - 1]->name),
                 in_quotes(order[i]->name));
  }
  return Ok{};
}

}  // namespace

Result<GgufHeader> read_gguf_header(std::string_view bytes, const std::string& label) {
  return HeaderReader(bytes, label).read();
}

}  // namespace quire
