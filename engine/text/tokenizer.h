#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/ids.h"
#include "engine/result.h"

namespace quire {

class GgufFile;

// Half-open byte range [begin, end).
struct ByteRange {
  std::size_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct EncodeOptions {
  bool add_special = false;  // BOS/EOS as the tokenizer's own configuration says
  // Where special tokens may be matched: kEverywhere for raw prompts, kNowhere for plain text,
  // kRanges for a rendered chat template (`special_ranges`, sorted and disjoint: the bytes that
  // came from the template; a match must lie inside one). Added tokens that are not special
  // ("<think>" in some vocabularies) are ordinary text and match wherever they occur.
  enum class Specials { kEverywhere, kNowhere, kRanges } specials = Specials::kEverywhere;
  std::span<const ByteRange> special_ranges;
};

// Text <-> token ids. Immutable after construction; every method may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Accepts any bytes: invalid UTF-8 is encoded by the byte fallback (or replaced, where the model
  // has none).
  virtual std::vector<TokenId> encode(std::string_view text,
                                      const EncodeOptions& options) const = 0;
  // The bytes a token stands for in running text; empty for control tokens. SentencePiece's
  // leading-space rule at the start of a text is the streaming detokenizer's affair.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // The token as the vocabulary spells it ("<|im_end|>", "Ġthe").
  virtual std::string_view token_text(TokenId id) const = 0;
  virtual TokenId find(std::string_view vocabulary_text) const = 0;  // -1: none
  virtual bool is_control(TokenId id) const = 0;  // special or control: not shown as text
  virtual int vocab_size() const = 0;
  virtual TokenId bos_id() const = 0;  // -1: none
  virtual TokenId eos_id() const = 0;  // -1: none
  virtual bool adds_bos() const = 0;
  // Every id that ends a turn (eos, <|im_end|>, <|eot_id|>, ...).
  virtual const std::vector<TokenId>& end_ids() const = 0;
  // SentencePiece-style: the first token's leading space is dropped when decoding.
  virtual bool strips_leading_space() const = 0;
  virtual std::string description()
      const = 0;  // "byte-level BPE, 49152 tokens, pre-tokenizer smollm"

  std::string decode(std::span<const TokenId> ids, bool skip_control = true) const;
};

Result<std::unique_ptr<Tokenizer>> tokenizer_from_gguf(const GgufFile& file);
// `tokenizer_config_json` may be empty.
Result<std::unique_ptr<Tokenizer>> tokenizer_from_json(std::string_view tokenizer_json,
                                                       std::string_view tokenizer_config_json);
// 256 byte tokens and a few control tokens, for builtin:tiny.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

// Feeds on token ids and gives out whole characters only: bytes of an unfinished UTF-8 sequence are
// held back, truly invalid ones become U+FFFD, one per maximal subpart (see utf8.h). Equals
// Tokenizer::decode of the whole. One per request; one thread.
class StreamDetokenizer {
 public:
  explicit StreamDetokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  std::string push(TokenId id);
  std::string finish();  // what was held back

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
  bool at_start_ = true;
};

}  // namespace quire
