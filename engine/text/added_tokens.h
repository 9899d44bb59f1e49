#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/text/pretokenizer_regex.h"
#include "engine/text/tokenizer.h"

namespace quire {

inline constexpr std::size_t kMaxAddedTokenBytes = 1024;

// A token matched in running text before any splitting or merging.
struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool special = false;                 // a control token: matched only where the caller allows
  bool normalized = false;              // looked for after normalization, else before
  bool single_word = false;             // only between word boundaries
  bool lstrip = false, rstrip = false;  // takes the white space before / behind along
};

// Part of a text: an added token, or plain text (id -1).
struct TextSegment {
  Span span;
  TokenId id = -1;
};

// Finds added tokens, leftmost first, longest among equals. Tokens that are not special match
// wherever they occur, as in Hugging Face's tokenizers; special ones only where `options` allows.
// Immutable; any thread.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);  // contents not empty

  // Appends the segments of `text`, which begins at byte `offset` of the text whose ranges
  // `options` speaks of. `specials_possible` false: no special token matches whatever `options`
  // say.
  void split(std::string_view text, std::size_t offset, const EncodeOptions& options,
             bool specials_possible, std::vector<TextSegment>& out) const;

 private:
  const AddedToken* longest_at(std::string_view text, std::size_t pos, std::size_t offset,
                               const EncodeOptions& options, bool specials_possible) const;
  std::int32_t child(std::int32_t node, unsigned char byte) const;  // -1: none

  std::vector<AddedToken> tokens_;
  // A trie of contents. Node 0 is the root; edges are keyed node << 8 | byte.
  std::unordered_map<std::uint64_t, std::int32_t> edges_;
  std::vector<std::int32_t> token_at_;    // per node: index into tokens_, -1 = inner node
  std::vector<std::int32_t> root_edges_;  // per byte; most positions stop here
};

}  // namespace quire
