#include "engine/formats/gguf_types.h"

#include <array>
#include <string_view>

namespace quire {
namespace {

// By number, from the GGUF specification and the Python gguf package; "" marks numbers never given
// out.
constexpr std::array<std::string_view, 42> kNames{
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
};

}  // namespace

std::optional<DType> dtype_of_gguf_type(std::uint32_t type) {
  if (type >= kNames.size()) return std::nullopt;
  for (int i = 0; i < kNumDTypes; ++i)
    if (dtype_info(static_cast<DType>(i)).name == kNames[type]) return static_cast<DType>(i);
  return std::nullopt;
}

std::string gguf_type_name(std::uint32_t type) {
  if (type < kNames.size()) return std::string(kNames[type]);
  return "number " + std::to_string(type);
}

}  // namespace quire
