#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/formats/gguf.h"
#include "engine/model/config.h"
#include "engine/result.h"

namespace quire {

// Readers of a model's shape. Every number is bounded before it is used; what the forward pass
// would not compute exactly (experts, sliding windows, other rope scalings, soft caps, ...) is
// kUnsupportedModel naming it, never ignored.

// From GGUF metadata, with vocab_size, biases, tied head and rope factors read off the tensors.
Result<ModelConfig> config_from_gguf(const GgufFile& file);

// From config.json, in the spellings of transformers 4 (rope_theta, rope_scaling) and 5
// (rope_parameters).
Result<ModelConfig> config_from_json(std::string_view config_json);

// Shared by both: `value` in [1, max], or an error naming `key`. Absent: `fallback` when positive,
// else an error.
Result<int> checked_size(std::string_view key, std::optional<std::int64_t> value, std::int64_t max,
                         std::int64_t fallback = 0);
// Relations between sizes: heads divide, even rotary_dim within head_dim, eps in range.
Status check_shape(const ModelConfig& config);

// Largest sizes read from a file; beyond any model of these families, and small enough that no
// product of two overflows.
inline constexpr std::int64_t kMaxHidden = 1 << 17, kMaxLayers = 1024, kMaxHeads = 4096,
                              kMaxHeadDim = 1024, kMaxFfn = 1 << 20, kMaxVocab = 1 << 22,
                              kMaxContext = 1 << 24;

}  // namespace quire
