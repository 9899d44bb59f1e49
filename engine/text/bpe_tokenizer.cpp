#include "engine/text/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "engine/text/byte_alphabet.h"

namespace quire {
namespace {

constexpr std::string_view kBar = "\xE2\x96\x81";  // U+2581

// Control tokens that end a turn in the families we load.
constexpr std::array<std::string_view, 9> kTurnEnders = {"<|im_end|>",
                                                         "<|eot_id|>",
                                                         "<|end_of_text|>",
                                                         "<|endoftext|>",
                                                         "<end_of_turn>",
                                                         "</s>",
                                                         "<|eom_id|>",
                                                         "<|end|>",
                                                         "<\xEF\xBD\x9C"
                                                         "end\xE2\x96\x81"
                                                         "of\xE2\x96\x81sentence\xEF\xBD\x9C>"};

std::string replace_bars(std::string_view text) {
  std::string out;
  for (std::size_t pos = 0; pos < text.size();) {
    const bool bar = text.substr(pos).starts_with(kBar);
    out.push_back(bar ? ' ' : text[pos]);
    pos += bar ? kBar.size() : 1;
  }
  return out;
}

std::optional<char> fallback_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x")) return std::nullopt;
  for (int byte = 0; byte < 256; ++byte)
    if (byte_fallback_text(static_cast<unsigned char>(byte)) == text)
      return static_cast<char>(byte);
  return std::nullopt;
}

std::vector<bool> control_flags(const TokenizerParts& parts) {
  std::vector<bool> control(static_cast<std::size_t>(parts.vocabulary.size()), false);
  for (const AddedToken& token : parts.added)
    if (token.special) control[static_cast<std::size_t>(token.id)] = true;
  for (const TokenId id : parts.other_control) control[static_cast<std::size_t>(id)] = true;
  return control;
}

std::vector<bool> complement(std::vector<bool> flags) {
  flags.flip();
  return flags;
}

std::string bytes_of(std::string_view text, TokenSpelling spelling, bool byte_fallback) {
  if (spelling == TokenSpelling::kByteLevel) return unspell_bytes(text).value_or(std::string(text));
  if (byte_fallback)
    if (const auto byte = fallback_byte(text)) return std::string(1, *byte);
  return replace_bars(text);
}

// What running text shows for each id. An added token shows what it was matched as.
StringPool token_bytes_pool(const TokenizerParts& parts, const std::vector<bool>& control) {
  std::unordered_map<TokenId, std::string> added;
  for (const AddedToken& token : parts.added)
    added[token.id] = token.normalized ? parts.normalizer.apply(token.content) : token.content;
  StringPool pool;
  for (TokenId id = 0; id < parts.vocabulary.size(); ++id) {
    const auto found = added.find(id);
    if (control[static_cast<std::size_t>(id)]) {
      pool.push({});
    } else if (found == added.end()) {
      pool.push(bytes_of(parts.vocabulary.text(id), parts.spelling, parts.bpe.byte_fallback));
    } else {
      pool.push(parts.spelling == TokenSpelling::kBars ? replace_bars(found->second)
                                                       : found->second);
    }
  }
  return pool;
}

// eos first, then whatever else ends a turn, each once.
std::vector<TokenId> all_end_ids(const TokenizerParts& parts, const std::vector<bool>& control) {
  std::vector<TokenId> ids;
  const auto add = [&ids](TokenId id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  };
  add(parts.eos_id);
  for (const TokenId id : parts.end_ids) add(id);
  for (const std::string_view name : kTurnEnders)
    if (const TokenId id = parts.vocabulary.find(name);
        id >= 0 && control[static_cast<std::size_t>(id)])
      add(id);
  return ids;
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(TokenizerParts parts);

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string_view token_bytes(TokenId id) const override {
    return vocabulary_.contains(id) ? bytes_[static_cast<std::size_t>(id)] : std::string_view();
  }
  std::string_view token_text(TokenId id) const override {
    return vocabulary_.contains(id) ? vocabulary_.text(id) : std::string_view();
  }
  TokenId find(std::string_view text) const override { return vocabulary_.find(text); }
  bool is_control(TokenId id) const override {
    return vocabulary_.contains(id) && control_[static_cast<std::size_t>(id)];
  }
  int vocab_size() const override { return vocabulary_.size(); }
  TokenId bos_id() const override { return bos_id_; }
  TokenId eos_id() const override { return eos_id_; }
  bool adds_bos() const override {
    return bos_id_ >= 0 && std::count(prefix_ids_.begin(), prefix_ids_.end(), bos_id_) > 0;
  }
  const std::vector<TokenId>& end_ids() const override { return end_ids_; }
  bool strips_leading_space() const override { return strips_leading_space_; }
  std::string description() const override;

 private:
  void set_up_matchers(std::vector<AddedToken> added);
  void encode_text(std::string_view text, std::size_t offset, const EncodeOptions& options,
                   BpeScratch& scratch, std::vector<TokenId>& out) const;
  void encode_plain(std::string text, bool at_text_start, BpeScratch& scratch,
                    std::vector<TokenId>& out) const;

  std::vector<bool> control_;
  StringPool bytes_;
  std::vector<TokenId> end_ids_;
  Vocabulary vocabulary_;
  Normalizer normalizer_;
  Pretokenizer pretokenizer_;
  BpeModel bpe_;  // looks into vocabulary_
  AddedTokenMatcher raw_matcher_, normalized_matcher_;
  TokenSpelling spelling_;
  bool strips_leading_space_;
  std::vector<TokenId> prefix_ids_, suffix_ids_;
  TokenId bos_id_, eos_id_;
  std::string pretokenizer_name_;
};

BpeTokenizer::BpeTokenizer(TokenizerParts parts)
    : control_(control_flags(parts)),
      bytes_(token_bytes_pool(parts, control_)),
      end_ids_(all_end_ids(parts, control_)),
      vocabulary_(std::move(parts.vocabulary)),
      normalizer_(std::move(parts.normalizer)),
      pretokenizer_(std::move(parts.pretokenizer)),
      bpe_(vocabulary_, std::move(parts.merges), parts.bpe, complement(control_)),
      spelling_(parts.spelling),
      strips_leading_space_(parts.strips_leading_space),
      prefix_ids_(std::move(parts.prefix_ids)),
      suffix_ids_(std::move(parts.suffix_ids)),
      bos_id_(parts.bos_id),
      eos_id_(parts.eos_id),
      pretokenizer_name_(std::move(parts.pretokenizer_name)) {
  set_up_matchers(std::move(parts.added));
}

void BpeTokenizer::set_up_matchers(std::vector<AddedToken> added) {
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : added) {
    if (!token.normalized || (token.special && !normalizer_.is_identity())) {
      raw.push_back(std::move(token));
      continue;
    }
    token.content = normalizer_.apply(token.content);
    if (!token.content.empty()) normalized.push_back(std::move(token));
  }
  raw_matcher_ = AddedTokenMatcher(std::move(raw));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text,
                                          const EncodeOptions& options) const {
  std::vector<TokenId> out;
  if (options.add_special) out = prefix_ids_;
  std::vector<TextSegment> segments;
  raw_matcher_.split(text, 0, options, true, segments);
  BpeScratch scratch;
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
    } else {
      encode_text(text.substr(segment.span.begin, segment.span.end - segment.span.begin),
                  segment.span.begin, options, scratch, out);
    }
  }
  if (options.add_special) out.insert(out.end(), suffix_ids_.begin(), suffix_ids_.end());
  return out;
}

void BpeTokenizer::encode_text(std::string_view text, std::size_t offset,
                               const EncodeOptions& options, BpeScratch& scratch,
                               std::vector<TokenId>& out) const {
  const std::string normalized = normalizer_.apply(text);
  std::vector<TextSegment> segments;
  // Offsets of normalized text mean the original's only where nothing was changed.
  normalized_matcher_.split(normalized, offset, options, normalizer_.is_identity(), segments);
  for (const TextSegment& segment : segments) {
    if (segment.id >= 0) {
      out.push_back(segment.id);
    } else {
      const Span span = segment.span;
      encode_plain(normalized.substr(span.begin, span.end - span.begin),
                   offset == 0 && span.begin == 0, scratch, out);
    }
  }
}

void BpeTokenizer::encode_plain(std::string text, bool at_text_start, BpeScratch& scratch,
                                std::vector<TokenId>& out) const {
  std::vector<Span> pieces;
  pretokenizer_.apply(text, at_text_start, pieces);
  for (const Span& piece : pieces)
    bpe_.encode(std::string_view(text).substr(piece.begin, piece.end - piece.begin), scratch, out);
}

std::string BpeTokenizer::description() const {
  const bool byte_level = spelling_ == TokenSpelling::kByteLevel;
  std::string out = byte_level ? "byte-level BPE, " : "SentencePiece-style BPE, ";
  out += std::to_string(vocab_size()) + " tokens";
  if (!pretokenizer_name_.empty()) out += ", pre-tokenizer " + pretokenizer_name_;
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(TokenizerParts parts) {
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace quire
