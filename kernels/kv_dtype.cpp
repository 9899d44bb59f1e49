#include "kernels/kv_dtype.h"

#include <array>

namespace quire {
namespace {

constexpr std::array<std::string_view, kNumKvDTypes> kNames{"bf16", "f16", "f32", "int8"};

}  // namespace

std::span<const std::string_view> kv_dtype_names() {
  return kNames;
}

std::string_view kv_dtype_name(KvDType type) {
  return kNames[static_cast<std::size_t>(type)];
}

std::optional<KvDType> kv_dtype_of(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<KvDType>(i);
  return std::nullopt;
}

std::string kv_dtype_choices() {
  std::string text;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    text += (i == 0 ? "" : i + 1 == kNames.size() ? " or " : ", ") + std::string(kNames[i]);
  return text;
}

}  // namespace quire
