#include "engine/model/read_config.h"

#include <cmath>
#include <string>

namespace quire {

Result<int> checked_size(std::string_view key, std::optional<std::int64_t> value, std::int64_t max,
                         std::int64_t fallback) {
  if (!value && fallback > 0) value = fallback;
  if (!value)
    return make_error(ErrorCode::kBadModelFile,
                      "The model does not say its " + std::string(key) + ".");
  if (*value < 1 || *value > max)
    return make_error(ErrorCode::kBadModelFile,
                      "The model's " + std::string(key) + " is " + std::to_string(*value) +
                          "; it must be between 1 and " + std::to_string(max) + ".");
  return static_cast<int>(*value);
}

Status check_shape(const ModelConfig& c) {
  auto bad = [](std::string message) { return make_error(ErrorCode::kBadModelFile, message); };
  if (c.num_heads % c.num_kv_heads != 0)
    return bad("The model has " + std::to_string(c.num_heads) + " attention heads, which " +
               std::to_string(c.num_kv_heads) + " key/value heads do not divide.");
  if (c.rotary_dim > c.head_dim || c.rotary_dim % 2 != 0)
    return bad("The model rotates " + std::to_string(c.rotary_dim) +
               " dimensions of heads that have " + std::to_string(c.head_dim) +
               "; the number must be even and not larger.");
  if (!std::isfinite(c.norm_eps) || c.norm_eps <= 0 || c.norm_eps > 1)
    return bad("The model's rms norm epsilon is out of range; it must be above 0 and at most 1.");
  return Ok{};
}

}  // namespace quire
