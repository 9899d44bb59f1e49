#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace quire {

// A cursor over untrusted little-endian bytes. A read that would pass the end fails and moves
// nothing.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  template <typename T>
  [[nodiscard]] bool read(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool read_bytes(std::uint64_t count, std::string_view& value) {
    if (count > remaining()) return false;
    value = bytes_.substr(offset_, static_cast<std::size_t>(count));
    offset_ += static_cast<std::size_t>(count);
    return true;
  }

 private:
  std::string_view bytes_;
  std::size_t offset_ = 0;
};

}  // namespace quire
