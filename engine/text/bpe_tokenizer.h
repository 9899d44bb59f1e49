#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/result.h"
#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"

namespace quire {

// How a token's text turns into bytes.
enum class TokenSpelling {
  kByteLevel,  // GPT-2's byte alphabet
  kBars,       // "▁" is a space; "<0x0A>" is a byte where the model has byte fallback
};

// Everything a BPE tokenizer is made of; what the GGUF and JSON loaders produce. Ids are within the
// vocabulary.
struct TokenizerParts {
  Vocabulary vocabulary;
  std::vector<AddedToken> added;
  std::vector<TokenId> other_control;  // control tokens that are never matched in text
  Normalizer normalizer;
  Pretokenizer pretokenizer;
  MergeTable merges;
  BpeOptions bpe;
  TokenSpelling spelling = TokenSpelling::kByteLevel;
  bool strips_leading_space = false;
  std::vector<TokenId> prefix_ids, suffix_ids;  // what add_special puts around a text
  TokenId bos_id = -1, eos_id = -1;
  std::vector<TokenId> end_ids;   // beyond eos and the well-known names
  std::string pretokenizer_name;  // for the description; "" = none
};

// Encoding runs: added tokens that are matched before normalization; then, on each stretch of text
// between them, normalization, the other added tokens, pre-tokenization and BPE.
//
// Special added tokens marked as normalized are matched before normalization when there is any, so
// that the ranges of EncodeOptions, which speak of the original text, can guard them.
//
// Broken UTF-8: the normalizer and the patterns see only the valid stretches; the bytes between
// them are pieces of their own and become byte tokens (byte-level or fallback), or the unknown
// token of a vocabulary that has neither.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(TokenizerParts parts);

}  // namespace quire
