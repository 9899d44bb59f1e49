#include <cmath>

#include "engine/formats/gguf.h"
#include "engine/text/bpe_tokenizer.h"
#include "engine/text/pretokenizer_presets.h"

namespace quire {
namespace {

// tokenizer.ggml.token_type
enum TokenType : std::int64_t { kUnknown = 2, kControl = 3, kUserDefined = 4 };

Error bad(const std::string& what) {
  return make_error(ErrorCode::kBadModelFile, "the model file's tokenizer is damaged: " + what);
}

// An optional id: -1 when absent, an error when outside the vocabulary.
Result<TokenId> token_id(const GgufFile& file, std::string_view name, std::size_t vocab_size) {
  const auto id = file.get_int("tokenizer.ggml." + std::string(name) + "_token_id");
  // Files without a token of this kind store 2^32 - 1.
  if (!id || *id < 0 || *id == 0xFFFFFFFF) return TokenId{-1};
  if (static_cast<std::uint64_t>(*id) >= vocab_size)
    return bad(std::string(name) + "_token_id is outside the vocabulary");
  return static_cast<TokenId>(*id);
}

struct Common {
  std::vector<std::int64_t> types;  // empty: all normal
  TokenId bos = -1, eos = -1, unknown = -1;
  TokenId type_of(std::size_t id) const {
    return types.empty() ? 1 : static_cast<TokenId>(types[id]);
  }
};

Status read_vocabulary(const GgufFile& file, TokenizerParts& parts) {
  const auto* tokens = file.get_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->empty()) return bad("tokenizer.ggml.tokens is missing");
  if (tokens->size() > kMaxVocabularySize) return bad("it has more than 4194304 tokens");
  StringPool texts;
  for (const std::string& token : *tokens) {
    if (token.size() > kMaxTokenBytes) return bad("a token is longer than 65536 bytes");
    if (texts.bytes() + token.size() > kMaxVocabularyBytes) return bad("its tokens exceed 1 GiB");
    texts.push(token);
  }
  parts.vocabulary = Vocabulary(std::move(texts));
  return Ok{};
}

Status read_types(const GgufFile& file, TokenizerParts& parts) {
  const auto* types = file.get_ints("tokenizer.ggml.token_type");
  if (types == nullptr) return Ok{};
  if (types->size() != static_cast<std::size_t>(parts.vocabulary.size()))
    return bad("tokenizer.ggml.token_type has another length than the vocabulary");
  for (TokenId id = 0; id < parts.vocabulary.size(); ++id) {
    const std::int64_t type = (*types)[static_cast<std::size_t>(id)];
    const bool special = type == kControl || type == kUnknown;
    if (!special && type != kUserDefined) continue;
    const std::string_view text = parts.vocabulary.text(id);
    if (text.empty() || text.size() > kMaxAddedTokenBytes) {
      if (special) parts.other_control.push_back(id);
    } else {
      parts.added.push_back({.id = id, .content = std::string(text), .special = special});
    }
  }
  return Ok{};
}

Status read_ids(const GgufFile& file, bool default_bos, TokenizerParts& parts) {
  const auto size = static_cast<std::size_t>(parts.vocabulary.size());
  QUIRE_TRY(parts.bos_id, token_id(file, "bos", size));
  QUIRE_TRY(parts.eos_id, token_id(file, "eos", size));
  for (const char* name : {"eot", "eom"}) {
    QUIRE_TRY(const TokenId id, token_id(file, name, size));
    if (id >= 0) parts.end_ids.push_back(id);
  }
  if (file.get_bool("tokenizer.ggml.add_bos_token").value_or(default_bos) && parts.bos_id >= 0)
    parts.prefix_ids.push_back(parts.bos_id);
  if (file.get_bool("tokenizer.ggml.add_eos_token").value_or(false) && parts.eos_id >= 0)
    parts.suffix_ids.push_back(parts.eos_id);
  return Ok{};
}

// "left right"; the first character of a side may itself be a space.
Status read_merges(const std::vector<std::string>& merges, TokenizerParts& parts) {
  if (merges.size() > kMaxMerges) return bad("it has more than 8388608 merges");
  parts.merges = MergeTable(merges.size());
  std::uint32_t rank = 0;
  for (const std::string& merge : merges) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos) return bad("a merge is not a pair");
    const std::string_view left = std::string_view(merge).substr(0, space);
    const std::string_view right = std::string_view(merge).substr(space + 1);
    const TokenId left_id = parts.vocabulary.find(left);
    const TokenId right_id = parts.vocabulary.find(right);
    const TokenId result = parts.vocabulary.find(std::string(left).append(right));
    if (left_id < 0 || right_id < 0 || result < 0)
      return bad("a merge names a token that is not in the vocabulary");
    parts.merges.add(left_id, right_id, {rank++, result});
  }
  return Ok{};
}

Status read_byte_level(const GgufFile& file, TokenizerParts& parts) {
  const std::string* pre = file.get_string("tokenizer.ggml.pre");
  const std::string name = pre == nullptr ? "default" : *pre;
  QUIRE_TRY(PretokenizerPreset preset, pretokenizer_preset(name));
  const auto* merges = file.get_strings("tokenizer.ggml.merges");
  if (merges == nullptr) return bad("tokenizer.ggml.merges is missing");
  QUIRE_RETURN_IF_ERROR(read_merges(*merges, parts));
  QUIRE_RETURN_IF_ERROR(read_ids(file, preset.adds_bos, parts));
  parts.normalizer = std::move(preset.normalizer);
  parts.pretokenizer = std::move(preset.pretokenizer);
  parts.pretokenizer_name = name;
  parts.bpe.byte_level = true;
  parts.bpe.ignore_merges = preset.ignore_merges;
  return Ok{};
}

std::vector<bool> mergeable(const TokenizerParts& parts) {
  std::vector<bool> usable(static_cast<std::size_t>(parts.vocabulary.size()), true);
  for (const AddedToken& token : parts.added)
    if (token.special) usable[static_cast<std::size_t>(token.id)] = false;
  for (const TokenId id : parts.other_control) usable[static_cast<std::size_t>(id)] = false;
  return usable;
}

Status read_scored_merges(const GgufFile& file, TokenizerParts& parts) {
  const auto* scores = file.get_floats("tokenizer.ggml.scores");
  if (scores == nullptr || scores->size() != static_cast<std::size_t>(parts.vocabulary.size()))
    return bad("tokenizer.ggml.scores is missing or has another length than the vocabulary");
  for (const double score : *scores)
    if (!std::isfinite(score)) return bad("a score is not a number");
  parts.merges = merges_from_scores(parts.vocabulary, *scores, mergeable(parts));
  return Ok{};
}

Status read_sentencepiece(const GgufFile& file, TokenizerParts& parts) {
  const auto size = static_cast<std::size_t>(parts.vocabulary.size());
  // Files that carry merges beside the scores state the order exactly.
  if (const auto* merges = file.get_strings("tokenizer.ggml.merges")) {
    QUIRE_RETURN_IF_ERROR(read_merges(*merges, parts));
  } else {
    QUIRE_RETURN_IF_ERROR(read_scored_merges(file, parts));
  }
  QUIRE_RETURN_IF_ERROR(read_ids(file, true, parts));
  QUIRE_TRY(parts.bpe.unknown, token_id(file, "unknown", size));
  parts.bpe.byte_fallback = true;
  parts.bpe.fuse_unknown = true;
  parts.spelling = TokenSpelling::kBars;
  constexpr const char* kBar = "\xE2\x96\x81";
  std::vector<Normalizer::Step> steps;
  if (file.get_bool("tokenizer.ggml.add_space_prefix").value_or(true)) {
    steps.push_back(Normalizer::Prepend{kBar});
    parts.strips_leading_space = true;
  }
  steps.push_back(Normalizer::Replace{" ", kBar});
  parts.normalizer = Normalizer(std::move(steps));
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufFile& file) {
  const std::string* model = file.get_string("tokenizer.ggml.model");
  if (model == nullptr)
    return make_error(ErrorCode::kBadModelFile,
                      "this model file has no tokenizer (tokenizer.ggml.model is missing)");
  if (*model != "gpt2" && *model != "llama")
    return make_error(
        ErrorCode::kUnsupportedModel,
        "this model's tokenizer kind \"" + model->substr(0, 64) + "\" is not supported");
  TokenizerParts parts;
  QUIRE_RETURN_IF_ERROR(read_vocabulary(file, parts));
  QUIRE_RETURN_IF_ERROR(read_types(file, parts));
  QUIRE_RETURN_IF_ERROR(*model == "gpt2" ? read_byte_level(file, parts)
                                         : read_sentencepiece(file, parts));
  return make_bpe_tokenizer(std::move(parts));
}

}  // namespace quire
