#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/result.h"
#include "engine/text/normalizer.h"
#include "engine/text/pretokenizer.h"

namespace quire {

// What a GGUF file's `tokenizer.ggml.pre` stands for: the part of a byte-level tokenizer that the
// file names but does not hold.
struct PretokenizerPreset {
  Normalizer normalizer;
  Pretokenizer pretokenizer;
  bool ignore_merges = false;
  bool adds_bos = false;  // where tokenizer.ggml.add_bos_token is absent
};

// An unknown name is kUnsupportedModel, naming it.
Result<PretokenizerPreset> pretokenizer_preset(std::string_view name);

}  // namespace quire
