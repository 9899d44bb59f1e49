#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.h"
#include "engine/text/vocabulary.h"

namespace quire {

inline constexpr int kMaxJsonDepth = 64;

// A tokenizer.json with its two large parts pulled out while parsing: model.vocab and model.merges
// never become JSON values (Gemma's would be two million of them).
struct TokenizerJson {
  nlohmann::json rest;  // everything else
  StringPool vocab_texts;
  std::vector<TokenId> vocab_ids;  // parallel to vocab_texts, each in [0, kMaxVocabularySize)
  StringPool merges;               // left, right, left, right, ...
};

// Bounds depth, vocabulary size, token length and number of merges. Merges may be pairs or
// "left right" strings.
Result<TokenizerJson> read_tokenizer_json(std::string_view text);

// Any other small JSON document, with the same depth bound. `what` names it in errors.
Result<nlohmann::json> read_json(std::string_view text, std::string_view what);

}  // namespace quire
