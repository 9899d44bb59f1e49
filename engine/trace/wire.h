#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// How a recording's payloads are written and read. WireWriter and WireReader have the same calls,
// so one template describes each record for both directions; it tells them apart by `kReading`.
// Integers are zigzag varints of their difference to a base both sides know.
namespace quire {

template <typename T>
constexpr std::int64_t to_wide(T value) {
  if constexpr (std::is_enum_v<T>)
    return static_cast<std::int64_t>(static_cast<std::underlying_type_t<T>>(value));
  else
    return static_cast<std::int64_t>(value);
}

class WireWriter {
 public:
  static constexpr bool kReading = false;
  explicit WireWriter(std::string& target) : target_(target) {}

  void byte(std::uint8_t value) { target_.push_back(static_cast<char>(value)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) byte(static_cast<std::uint8_t>(value | 0x80));
    byte(static_cast<std::uint8_t>(value));
  }
  template <typename T>
  void number(const T& value, std::int64_t base = 0) {
    const std::uint64_t delta =
        static_cast<std::uint64_t>(to_wide(value)) - static_cast<std::uint64_t>(base);
    varint(delta << 1 ^ (delta >> 63 != 0 ? ~std::uint64_t{0} : 0));
  }
  // The value both sides expect; the writer has made sure of it.
  template <typename T>
  void expected(const T&, std::int64_t) {}
  template <typename T>
  void choice(const T& value, int /*last*/) {
    byte(static_cast<std::uint8_t>(value));
  }
  bool flag(bool value) {
    byte(value ? 1 : 0);
    return value;
  }
  void real(double value) { fixed(std::bit_cast<std::uint64_t>(value)); }
  void real(float value) { fixed(std::bit_cast<std::uint32_t>(value)); }
  // Short when equal to `base`.
  void real(double value, double base) {
    varint(reversed(std::bit_cast<std::uint64_t>(value) ^ std::bit_cast<std::uint64_t>(base)));
  }
  void text(std::string_view value) {
    varint(value.size());
    target_.append(value);
  }
  template <typename T, typename Each>
  void list(const std::vector<T>& values, Each each) {
    varint(values.size());
    for (const T& value : values) each(value);
  }

  static constexpr std::uint64_t reversed(std::uint64_t value) { return __builtin_bswap64(value); }

 private:
  template <std::unsigned_integral T>
  void fixed(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
  }

  std::string& target_;
};

// Reads untrusted bytes. The first thing out of range fails it for good: from then on every value
// is zero and every list empty. Lists grow as they are read, so what is allocated is bounded by the
// bytes there are.
class WireReader {
 public:
  static constexpr bool kReading = true;
  static constexpr std::uint64_t kMaxListEntries = 1 << 24;
  static constexpr std::uint64_t kMaxTextBytes = 1 << 24;
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool at_end() const { return offset_ == bytes_.size(); }
  void fail() { ok_ = false; }

  std::uint8_t byte() {
    if (!ok_ || at_end()) {
      fail();
      return 0;
    }
    return static_cast<std::uint8_t>(bytes_[offset_++]);
  }
  void byte(std::uint8_t& value) { value = byte(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t part = byte();
      if (shift == 63 && part > 1) break;
      value |= (part & 0x7F) << shift;
      if (part < 0x80) return value;
    }
    fail();
    return 0;
  }
  template <typename T>
  void number(T& value, std::int64_t base = 0) {
    const std::uint64_t coded = varint();
    const std::uint64_t delta = coded >> 1 ^ ((coded & 1) != 0 ? ~std::uint64_t{0} : 0);
    expected(value, static_cast<std::int64_t>(delta + static_cast<std::uint64_t>(base)));
  }
  template <typename T>
  void expected(T& value, std::int64_t wide) {
    if (!fits<T>(wide)) {
      fail();
      wide = 0;
    }
    value = static_cast<T>(wide);
  }
  template <typename T>
  void choice(T& value, int last) {
    const int read = byte();
    if (read > last) fail();
    value = static_cast<T>(read > last ? 0 : read);
  }
  bool flag(bool = false) {
    const int read = byte();
    if (read > 1) fail();
    return read == 1;
  }
  // Numbers that are not finite are refused.
  void real(double& value) { store(value, std::bit_cast<double>(fixed<std::uint64_t>())); }
  void real(float& value) { store(value, std::bit_cast<float>(fixed<std::uint32_t>())); }
  void real(double& value, double base) {
    store(value, std::bit_cast<double>(WireWriter::reversed(varint()) ^
                                       std::bit_cast<std::uint64_t>(base)));
  }
  void text(std::string& value) {
    const std::uint64_t size = varint();
    if (size > kMaxTextBytes || size > bytes_.size() - offset_) fail();
    value.clear();
    if (!ok_) return;
    value = bytes_.substr(offset_, static_cast<std::size_t>(size));
    offset_ += static_cast<std::size_t>(size);
  }
  template <typename T, typename Each>
  void list(std::vector<T>& values, Each each) {
    values.clear();
    const std::uint64_t count = varint();
    if (count > kMaxListEntries || count > bytes_.size() - offset_) fail();
    for (std::uint64_t i = 0; ok_ && i < count; ++i) each(values.emplace_back());
    if (!ok_) values.clear();
  }

 private:
  template <typename T>
  static constexpr bool fits(std::int64_t wide) {
    if constexpr (std::is_enum_v<T>)
      return fits<std::underlying_type_t<T>>(wide);
    else if constexpr (sizeof(T) == 8)
      return true;
    else
      return wide >= std::numeric_limits<T>::min() && wide <= std::numeric_limits<T>::max();
  }
  template <typename T>
  void store(T& value, T read) {
    if (!std::isfinite(read)) fail();
    value = ok_ ? read : T{0};
  }
  template <std::unsigned_integral T>
  T fixed() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(T{byte()} << (8 * i));
    return value;
  }

  std::string_view bytes_;
  std::size_t offset_ = 0;
  bool ok_ = true;
};

}  // namespace quire
