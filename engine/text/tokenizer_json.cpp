#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/text/tokenizer_json_parts.h"
#include "engine/text/tokenizer_json_reader.h"

namespace quire {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json kNull;
  const auto it = object.find(key);
  return it == object.end() ? kNull : *it;
}

Status check_model(const json& model) {
  if (!model.is_object()) return bad_section("model", "no object");
  const std::string type = json_string(model, "type", "BPE");
  if (type != "BPE") return unsupported_section("model", type);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!json_string(model, key).empty()) return unsupported_section("model option", key);
  if (const json& dropout = member(model, "dropout"); dropout.is_number() && dropout != 0)
    return unsupported_section("model option", "dropout");
  return Ok{};
}

Status read_added(const json& root, std::vector<AddedToken>& added) {
  const json& list = member(root, "added_tokens");
  if (list.is_null()) return Ok{};
  if (!list.is_array() || list.size() > kMaxVocabularySize)
    return bad_section("added_tokens", "no list");
  for (const json& item : list) {
    const json& id = item.is_object() ? member(item, "id") : item;
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMaxVocabularySize)
      return bad_section("added_tokens", "an id that is not a number below 4194304");
    AddedToken token{.id = id.get<TokenId>(), .content = json_string(item, "content")};
    if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes)
      return bad_section("added_tokens", "an empty token or one above 1024 bytes");
    token.special = json_bool(item, "special", false);
    token.normalized = json_bool(item, "normalized", !token.special);
    token.single_word = json_bool(item, "single_word", false);
    token.lstrip = json_bool(item, "lstrip", false);
    token.rstrip = json_bool(item, "rstrip", false);
    added.push_back(std::move(token));
  }
  return Ok{};
}

// A small file may not name a huge vocabulary by its highest id alone.
Status check_density(const TokenizerJson& file, const std::vector<AddedToken>& added) {
  TokenId last = -1;
  for (const TokenId id : file.vocab_ids) last = std::max(last, id);
  for (const AddedToken& token : added) last = std::max(last, token.id);
  const std::size_t named = file.vocab_ids.size() + added.size();
  if (file.vocab_ids.empty()) return bad_section("model", "no tokens");
  if (static_cast<std::size_t>(last) > 4 * named + 65536)
    return bad_section("model", "ids with too many gaps between them");
  return Ok{};
}

// Texts by id; where the two disagree, an added token's text wins.
Vocabulary make_vocabulary(const TokenizerJson& file, const std::vector<AddedToken>& added) {
  TokenId last = -1;
  for (const TokenId id : file.vocab_ids) last = std::max(last, id);
  for (const AddedToken& token : added) last = std::max(last, token.id);
  std::vector<std::string_view> by_id(static_cast<std::size_t>(last + 1));
  for (std::size_t i = 0; i < file.vocab_ids.size(); ++i)
    by_id[static_cast<std::size_t>(file.vocab_ids[i])] = file.vocab_texts[i];
  for (const AddedToken& token : added) by_id[static_cast<std::size_t>(token.id)] = token.content;
  StringPool texts;
  for (const std::string_view text : by_id) texts.push(text);
  return Vocabulary(std::move(texts));
}

Status read_merges(const StringPool& pairs, TokenizerParts& parts) {
  parts.merges = MergeTable(pairs.size() / 2);
  std::string joined;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    joined.assign(pairs[i]).append(pairs[i + 1]);
    const TokenId left = parts.vocabulary.find(pairs[i]);
    const TokenId right = parts.vocabulary.find(pairs[i + 1]);
    const TokenId result = parts.vocabulary.find(joined);
    if (left < 0 || right < 0 || result < 0)
      return bad_section("model", "a merge of tokens that are not in the vocabulary");
    parts.merges.add(left, right, {static_cast<std::uint32_t>(i / 2), result});
  }
  return Ok{};
}

Status read_model(const json& model, TokenizerParts& parts) {
  parts.bpe.byte_fallback = json_bool(model, "byte_fallback", false);
  parts.bpe.fuse_unknown = json_bool(model, "fuse_unk", false);
  parts.bpe.ignore_merges = json_bool(model, "ignore_merges", false);
  const std::string unknown = json_string(model, "unk_token");
  if (unknown.empty()) return Ok{};
  parts.bpe.unknown = parts.vocabulary.find(unknown);
  if (parts.bpe.unknown < 0) return bad_section("model", "an unk_token outside the vocabulary");
  return Ok{};
}

Status read_pipeline(const json& root, TokenizerParts& parts) {
  QUIRE_TRY(parts.normalizer, normalizer_from_json(member(root, "normalizer")));
  QUIRE_TRY(JsonPretokenizer pretokenizer, pretokenizer_from_json(member(root, "pre_tokenizer")));
  QUIRE_TRY(const JsonDecoder decoder, decoder_from_json(member(root, "decoder")));
  QUIRE_TRY(JsonPostProcessor processor,
            post_processor_from_json(member(root, "post_processor"), parts.vocabulary.size()));
  parts.pretokenizer = std::move(pretokenizer.pretokenizer);
  parts.bpe.byte_level = pretokenizer.byte_level;
  if (pretokenizer.byte_level != (decoder.spelling == TokenSpelling::kByteLevel))
    return unsupported_section("decoder", "one that does not undo the pre_tokenizer");
  parts.spelling = decoder.spelling;
  parts.strips_leading_space = decoder.strips_leading_space;
  parts.prefix_ids = std::move(processor.prefix_ids);
  parts.suffix_ids = std::move(processor.suffix_ids);
  return Ok{};
}

// tokenizer_config.json names a token as a string or as an object with its content.
TokenId named_token(const json& config, const char* key, const Vocabulary& vocabulary) {
  if (!config.is_object()) return -1;
  const json& value = member(config, key);
  return vocabulary.find(value.is_object() ? json_string(value, "content")
                                           : json_string(config, key));
}

// An explicit add_bos_token or add_eos_token overrides the post-processor, as in the Python
// classes that write it.
void obey(const json& config, const char* key, TokenId id, std::vector<TokenId>& ids) {
  if (!config.is_object() || !member(config, key).is_boolean()) return;
  ids.clear();
  if (member(config, key).get<bool>() && id >= 0) ids.push_back(id);
}

void read_ends(const json& config, TokenizerParts& parts) {
  parts.bos_id = named_token(config, "bos_token", parts.vocabulary);
  parts.eos_id = named_token(config, "eos_token", parts.vocabulary);
  if (parts.bos_id < 0 && !parts.prefix_ids.empty()) parts.bos_id = parts.prefix_ids.front();
  if (parts.eos_id < 0 && !parts.suffix_ids.empty()) parts.eos_id = parts.suffix_ids.back();
  obey(config, "add_bos_token", parts.bos_id, parts.prefix_ids);
  obey(config, "add_eos_token", parts.eos_id, parts.suffix_ids);
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json,
                                                       std::string_view tokenizer_config_json) {
  QUIRE_TRY(const TokenizerJson file, read_tokenizer_json(tokenizer_json));
  json config;
  if (!tokenizer_config_json.empty()) {
    QUIRE_TRY(config, read_json(tokenizer_config_json, "tokenizer_config.json"));
  }
  const json& model = member(file.rest, "model");
  QUIRE_RETURN_IF_ERROR(check_model(model));
  TokenizerParts parts;
  QUIRE_RETURN_IF_ERROR(read_added(file.rest, parts.added));
  QUIRE_RETURN_IF_ERROR(check_density(file, parts.added));
  parts.vocabulary = make_vocabulary(file, parts.added);
  QUIRE_RETURN_IF_ERROR(read_merges(file.merges, parts));
  QUIRE_RETURN_IF_ERROR(read_model(model, parts));
  QUIRE_RETURN_IF_ERROR(read_pipeline(file.rest, parts));
  read_ends(config, parts);
  return make_bpe_tokenizer(std::move(parts));
}

}  // namespace quire
