#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace quire::test {

// Writes GGUF files in memory, honest or lying. Keys and tensors are written in the order added; no
// checks. A vocabulary-only file is one without tensors.
//   GgufWriter().set("general.architecture", "llama").set("tokenizer.ggml.tokens", tokens).finish()
class GgufWriter {
 public:
  // The format's numbers for kinds of values.
  enum Type : std::uint32_t {
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

  std::uint32_t version = 3;
  std::uint64_t alignment = 32;     // of the data section; written only by set_alignment
  std::uint64_t extra_keys = 0;     // added to the key count that is claimed
  std::uint64_t extra_tensors = 0;  // added to the tensor count that is claimed

  GgufWriter& set(std::string_view key, std::string_view value) {
    return put_key(key, kString, text(value));
  }
  GgufWriter& set(std::string_view key, const char* value) {
    return set(key, std::string_view(value));
  }
  // Integers and floats of any size, and bool.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  GgufWriter& set(std::string_view key, T value) {
    return put_key(key, type_of<T>(), number(value));
  }
  GgufWriter& set(std::string_view key, const std::vector<std::string>& values) {
    std::string body = number<std::uint32_t>(kString) + number<std::uint64_t>(values.size());
    for (const std::string& value : values) body += text(value);
    return put_key(key, kArray, body);
  }
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  GgufWriter& set(std::string_view key, const std::vector<T>& values) {
    std::string body = number<std::uint32_t>(type_of<T>()) + number<std::uint64_t>(values.size());
    for (const T value : values) body += number<T>(value);
    return put_key(key, kArray, body);
  }
  GgufWriter& set_alignment(std::uint32_t value) {
    alignment = value;
    return set("general.alignment", value);
  }
  // A key whose encoded value is given: for values that lie about themselves.
  GgufWriter& put_key(std::string_view key, std::uint32_t type, std::string_view body) {
    keys_ += text(key) + number(type) + std::string(body);
    ++num_keys_;
    return *this;
  }

  // A tensor placed behind the ones before it. `dims` innermost first, as GGUF stores them.
  GgufWriter& add_tensor(std::string_view name, std::uint32_t ggml_type,
                         const std::vector<std::uint64_t>& dims, std::string_view data) {
    pad(data_, alignment);
    put_tensor(name, ggml_type, dims, data_.size());
    data_ += data;
    return *this;
  }
  // A tensor entry alone, at an offset of one's choice.
  GgufWriter& put_tensor(std::string_view name, std::uint32_t ggml_type,
                         const std::vector<std::uint64_t>& dims, std::uint64_t offset) {
    entries_ += text(name) + number(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) entries_ += number(dim);
    entries_ += number(ggml_type) + number(offset);
    ++num_tensors_;
    return *this;
  }

  std::string finish() const {
    std::string file = "GGUF" + number(version) + number(num_tensors_ + extra_tensors) +
                       number(num_keys_ + extra_keys) + keys_ + entries_;
    if (num_tensors_ > 0) pad(file, alignment);
    return file + data_;
  }

  // Encodings of values, for put_key.
  template <typename T>
  static std::string number(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string text(std::string_view value) {
    return number(static_cast<std::uint64_t>(value.size())) + std::string(value);
  }

 private:
  template <typename T>
  static constexpr std::uint32_t type_of() {
    if constexpr (std::is_same_v<T, bool>) return kBool;
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? kFloat32 : kFloat64;
    constexpr std::uint32_t by_size[] = {kUint8, kUint16, kUint32, kUint64};
    constexpr int index = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return by_size[index] + (std::is_signed_v<T> ? 1 : 0);
  }
  static void pad(std::string& bytes, std::uint64_t alignment) {
    if (alignment == 0) return;
    bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0');
  }

  std::string keys_, entries_, data_;
  std::uint64_t num_keys_ = 0, num_tensors_ = 0;
};

}  // namespace quire::test
