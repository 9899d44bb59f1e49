#include "engine/formats/messages.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace quire {
namespace {

constexpr std::size_t kMaxQuotedBytes = 80;
constexpr std::string_view kLfsStart = "version https://git-lfs";

bool is_control(utf8proc_int32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == 0x2028 ||
         code_point == 0x2029;
}

struct Signature {
  std::string_view start, description;
};
constexpr std::array<Signature, 9> kSignatures{{
    {"GGUF", "a GGUF file"},
    {"ggml", "a file of the old GGML format"},
    {"lmgg", "a file of the old GGML format"},
    {"fmgg", "a file of the old GGML format"},
    {"tjgg", "a file of the old GGJT format"},
    {"PK\x03\x04", "a zip archive or PyTorch checkpoint"},
    {"\x80\x02", "a Python pickle"},
    {"<!", "a web page"},
    {"<html", "a web page"},
}};

bool looks_like_safetensors(std::string_view bytes) {
  return bytes.size() > 9 && bytes[8] == '{' && bytes[7] == '\0' && bytes[6] == '\0';
}

// "" when unknown.
std::string_view describe_start(std::string_view bytes) {
  for (const Signature& signature : kSignatures)
    if (bytes.substr(0, signature.start.size()) == signature.start) return signature.description;
  return {};
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "'";
  std::size_t at = 0;
  while (at < text.size() && result.size() < kMaxQuotedBytes) {
    utf8proc_int32_t code_point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto left = static_cast<utf8proc_ssize_t>(text.size() - at);
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &code_point);
    const bool shown = length > 0 && !is_control(code_point);
    result += shown ? text.substr(at, static_cast<std::size_t>(length)) : "?";
    at += static_cast<std::size_t>(std::max<utf8proc_ssize_t>(length, 1));
  }
  if (at < text.size()) result += "...";
  return result + "'";
}

std::string quoted_file_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && path.size() > 1) path.remove_prefix(slash + 1);
  return in_quotes(path);
}

bool is_lfs_pointer(std::string_view bytes) {
  return bytes.substr(0, kLfsStart.size()) == kLfsStart;
}

bool is_foreign_to_safetensors(std::string_view bytes) {
  return is_lfs_pointer(bytes) || !describe_start(bytes).empty();
}

std::string wrong_kind_sentence(std::string_view label, std::string_view bytes,
                                std::string_view wanted) {
  if (is_lfs_pointer(bytes))
    return fmt::format(
        "{} is a Git LFS pointer, not the model itself: fetch it with 'git lfs pull'.", label);
  std::string_view found = describe_start(bytes);
  if (found.empty() && looks_like_safetensors(bytes)) found = "a safetensors file";
  if (found.empty()) return fmt::format("{} is not {}.", label, wanted);
  return fmt::format("{} is {}, not {}.", label, found, wanted);
}

}  // namespace quire
