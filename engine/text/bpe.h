#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/ids.h"
#include "engine/text/vocabulary.h"

namespace quire {

struct Merge {
  std::uint32_t rank = 0;  // lower merges first; equal ranks merge left to right
  TokenId result = -1;
};

// (left id, right id) -> merge. Open addressing; at most kMaxMerges entries.
class MergeTable {
 public:
  explicit MergeTable(std::size_t expected = 0);
  // A pair given twice keeps the later merge.
  void add(TokenId left, TokenId right, Merge merge);
  const Merge* find(TokenId left, TokenId right) const;  // null: they do not merge
  std::size_t size() const { return size_; }

 private:
  struct Entry {
    std::uint64_t pair = 0;
    Merge merge;  // result -1 = free
  };
  Entry& slot(std::uint64_t pair);
  void grow();

  std::vector<Entry> entries_;  // a power of two, at most half full
  std::size_t size_ = 0;
};

inline constexpr std::size_t kMaxMerges = std::size_t{1} << 23;

// Merges for vocabularies that carry scores in place of merges (SentencePiece): every split of a
// token into two tokens merges at that token's place in descending score order. `usable[id]`: may
// take part. Tokens above kMaxScoredBytes are never made by merging (their splits are quadratic
// work).
inline constexpr std::size_t kMaxScoredBytes = 1024;
MergeTable merges_from_scores(const Vocabulary& vocabulary, const std::vector<double>& scores,
                              const std::vector<bool>& usable);

struct BpeOptions {
  bool byte_level = false;     // symbols are bytes in GPT-2's spelling, else characters
  bool byte_fallback = false;  // an unknown character becomes its bytes' tokens, "<0x41>"
  bool ignore_merges = false;  // a piece that is a token whole is that token
  bool fuse_unknown = false;   // neighbouring unknown characters become one unknown token
  TokenId unknown = -1;        // -1: unknown characters without a fallback vanish
};

// Working memory of one encode call, reused from piece to piece.
struct BpeScratch {
  struct Symbol {
    TokenId id = -1;  // -1: merged away
    std::int32_t previous = -1, next = -1;
  };
  // Pairs that may merge, as rank << 32 | position of the left symbol.
  using Candidate = std::uint64_t;
  std::vector<Symbol> symbols;
  std::vector<Candidate> first;  // of the untouched piece, sorted
  std::vector<Candidate> heap;   // that merging brought about
  std::string spelling;
  std::uint64_t num_candidates = 0;  // ever made: the work done, which tests bound
};

// Byte-pair encoding of one pre-token: repeatedly joins the neighbouring pair of lowest rank, the
// leftmost of equals. O(n log n): candidate pairs in order over a linked list of symbols (n - 1
// candidates at first, at most two more per merge). Immutable; any thread.
class BpeModel {
 public:
  // `plain[id]`: the token may come out of plain text. Control tokens may not, whatever the merges
  // say. `vocabulary` must outlive the model.
  BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options,
           std::vector<bool> plain);

  // Appends the tokens of `piece`, which may hold any bytes and at most 2^31 - 1 of them.
  void encode(std::string_view piece, BpeScratch& scratch, std::vector<TokenId>& out) const;
  const BpeOptions& options() const { return options_; }

 private:
  TokenId lookup(std::string_view text) const;
  void append_bytes(std::string_view piece, BpeScratch& scratch) const;
  void append_characters(std::string_view piece, BpeScratch& scratch) const;
  bool append_fallback(std::string_view character, BpeScratch& scratch) const;
  const Merge* merge_at(std::int32_t position, const BpeScratch& scratch) const;
  void offer(std::int32_t position, BpeScratch& scratch) const;
  void join(std::int32_t position, TokenId result, BpeScratch& scratch) const;
  void merge_all(BpeScratch& scratch) const;

  const Vocabulary* vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::vector<bool> plain_;
  std::array<TokenId, 256> byte_ids_{};  // byte-level or fallback token of each byte; -1: none
};

// The fallback token's spelling: "<0x0A>".
std::string byte_fallback_text(unsigned char byte);

}  // namespace quire
