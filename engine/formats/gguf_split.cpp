#include "engine/formats/gguf_split.h"

#include <fmt/format.h>

#include <charconv>

namespace quire {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kOf = "-of-", kSuffix = ".gguf";
constexpr std::size_t kTailSize = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();

std::optional<int> five_digits(std::string_view text) {
  int value = 0;
  if (text.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<GgufSplitName> parse_split_name(std::string_view path) {
  if (path.size() < kTailSize) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTailSize);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf ||
      tail.substr(tail.size() - kSuffix.size()) != kSuffix)
    return std::nullopt;
  const auto number = five_digits(tail.substr(1, kDigits));
  const auto count = five_digits(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return GgufSplitName{std::string(path.substr(0, path.size() - kTailSize)), *number, *count};
}

std::string split_file_name(const std::string& prefix, int number, int count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number, count);
}

}  // namespace quire
