#pragma once

#include <memory>

#include "engine/formats/weight_source.h"
#include "engine/model/config.h"

namespace quire {

// builtin:tiny: a two-layer model of Qwen3's shape over the byte tokenizer, so that tests, lessons
// and a first start need no download. The weights are float32 from a counter-based generator: the
// same on every machine.
ModelConfig builtin_tiny_config();
std::unique_ptr<WeightSource> make_builtin_tiny_weights();  // Hugging Face's names

}  // namespace quire
