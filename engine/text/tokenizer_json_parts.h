#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/result.h"
#include "engine/text/bpe_tokenizer.h"

namespace quire {

// The sections of a tokenizer.json, read into the parts of our tokenizer. A component of a kind we
// do not know is kUnsupportedModel, naming section and kind; a malformed one is kBadModelFile.

Result<Normalizer> normalizer_from_json(const nlohmann::json& section);

struct JsonPretokenizer {
  Pretokenizer pretokenizer;
  bool byte_level = false;  // text turns into GPT-2's byte spelling
};
Result<JsonPretokenizer> pretokenizer_from_json(const nlohmann::json& section);

struct JsonDecoder {
  TokenSpelling spelling = TokenSpelling::kByteLevel;
  bool strips_leading_space = false;
};
Result<JsonDecoder> decoder_from_json(const nlohmann::json& section);

struct JsonPostProcessor {
  std::vector<TokenId> prefix_ids, suffix_ids;
};
Result<JsonPostProcessor> post_processor_from_json(const nlohmann::json& section, int vocab_size);

// Helpers shared by the readers.
Error unsupported_section(const std::string& section, const std::string& what);
Error bad_section(const std::string& section, const std::string& what);
// A member of an object, by type; the fallback when it is absent or null.
std::string json_string(const nlohmann::json& object, const char* key, const char* fallback = "");
bool json_bool(const nlohmann::json& object, const char* key, bool fallback);
const nlohmann::json* json_array(const nlohmann::json& object, const char* key);

}  // namespace quire
