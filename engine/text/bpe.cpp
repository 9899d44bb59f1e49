#include "engine/text/bpe.h"

#include <algorithm>
#include <functional>

#include "engine/text/byte_alphabet.h"
#include "engine/text/utf8.h"

namespace quire {
namespace {

BpeScratch::Candidate candidate(const Merge& merge, std::int32_t position) {
  return (static_cast<std::uint64_t>(merge.rank) << 32) | static_cast<std::uint32_t>(position);
}

// The next candidate in order; false when none is left. `taken` counts those of `first` in use.
bool take_next(BpeScratch& scratch, std::size_t& taken, BpeScratch::Candidate& next) {
  auto& heap = scratch.heap;
  const bool from_first =
      taken < scratch.first.size() && (heap.empty() || scratch.first[taken] <= heap.front());
  if (from_first) {
    next = scratch.first[taken++];
    return true;
  }
  if (heap.empty()) return false;
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  next = heap.back();
  heap.pop_back();
  return true;
}

}  // namespace

std::string byte_fallback_text(unsigned char byte) {
  constexpr char kHex[] = "0123456789ABCDEF";
  return std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">";
}

BpeModel::BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options,
                   std::vector<bool> plain)
    : vocabulary_(&vocabulary),
      merges_(std::move(merges)),
      options_(options),
      plain_(std::move(plain)) {
  byte_ids_.fill(-1);
  if (!options_.byte_level && !options_.byte_fallback) return;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    if (options_.byte_level) {
      append_byte_spelling(text, static_cast<unsigned char>(byte));
    } else {
      text = byte_fallback_text(static_cast<unsigned char>(byte));
    }
    byte_ids_[static_cast<std::size_t>(byte)] = lookup(text);
  }
}

TokenId BpeModel::lookup(std::string_view text) const {
  const TokenId id = vocabulary_->find(text);
  return id >= 0 && plain_[static_cast<std::size_t>(id)] ? id : -1;
}

void BpeModel::encode(std::string_view piece, BpeScratch& scratch,
                      std::vector<TokenId>& out) const {
  if (piece.empty()) return;
  if (options_.ignore_merges) {
    scratch.spelling.clear();
    if (options_.byte_level) {
      for (const char byte : piece)
        append_byte_spelling(scratch.spelling, static_cast<unsigned char>(byte));
    } else {
      scratch.spelling = piece;
    }
    if (const TokenId whole = lookup(scratch.spelling); whole >= 0) {
      out.push_back(whole);
      return;
    }
  }
  scratch.symbols.clear();
  options_.byte_level ? append_bytes(piece, scratch) : append_characters(piece, scratch);
  const auto count = static_cast<std::int32_t>(scratch.symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    scratch.symbols[static_cast<std::size_t>(i)].previous = i - 1;
    scratch.symbols[static_cast<std::size_t>(i)].next = i + 1 < count ? i + 1 : -1;
  }
  merge_all(scratch);
  for (const auto& symbol : scratch.symbols)
    if (symbol.id >= 0) out.push_back(symbol.id);
}

void BpeModel::append_bytes(std::string_view piece, BpeScratch& scratch) const {
  for (const char c : piece) {
    TokenId id = byte_ids_[static_cast<unsigned char>(c)];
    if (id < 0) id = options_.unknown;
    if (id >= 0) scratch.symbols.push_back({id});
  }
}

void BpeModel::append_characters(std::string_view piece, BpeScratch& scratch) const {
  bool after_unknown = false;
  for (std::size_t pos = 0; pos < piece.size();) {
    const Utf8Step step = read_utf8(piece, pos);
    const std::string_view character = piece.substr(pos, step.length);
    pos += step.length;
    const TokenId id = step.kind == Utf8Kind::kValid ? lookup(character) : -1;
    if (id >= 0) {
      scratch.symbols.push_back({id});
    } else if (append_fallback(character, scratch)) {
    } else if (options_.unknown >= 0) {
      if (!after_unknown || !options_.fuse_unknown) scratch.symbols.push_back({options_.unknown});
      after_unknown = true;
      continue;
    }
    after_unknown = false;
  }
}

bool BpeModel::append_fallback(std::string_view character, BpeScratch& scratch) const {
  if (!options_.byte_fallback) return false;
  for (const char c : character)
    if (byte_ids_[static_cast<unsigned char>(c)] < 0) return false;
  for (const char c : character)
    scratch.symbols.push_back({byte_ids_[static_cast<unsigned char>(c)]});
  return true;
}

// How the symbol at `position` merges with its right neighbour; null: not, or it is gone.
const Merge* BpeModel::merge_at(std::int32_t position, const BpeScratch& scratch) const {
  const auto& left = scratch.symbols[static_cast<std::size_t>(position)];
  if (left.id < 0 || left.next < 0) return nullptr;
  return merges_.find(left.id, scratch.symbols[static_cast<std::size_t>(left.next)].id);
}

void BpeModel::offer(std::int32_t position, BpeScratch& scratch) const {
  const Merge* merge = merge_at(position, scratch);
  if (merge == nullptr) return;
  scratch.heap.push_back(candidate(*merge, position));
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), std::greater<>());
  ++scratch.num_candidates;
}

void BpeModel::join(std::int32_t position, TokenId result, BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& left = symbols[static_cast<std::size_t>(position)];
  auto& right = symbols[static_cast<std::size_t>(left.next)];
  left.id = result;
  right.id = -1;
  left.next = right.next;
  if (right.next >= 0) symbols[static_cast<std::size_t>(right.next)].previous = position;
  if (left.previous >= 0) offer(left.previous, scratch);
  offer(position, scratch);
}

void BpeModel::merge_all(BpeScratch& scratch) const {
  scratch.first.clear();
  scratch.heap.clear();
  for (std::size_t i = 0; i + 1 < scratch.symbols.size(); ++i) {
    const auto position = static_cast<std::int32_t>(i);
    if (const Merge* merge = merge_at(position, scratch))
      scratch.first.push_back(candidate(*merge, position));
  }
  scratch.num_candidates += scratch.first.size();
  std::sort(scratch.first.begin(), scratch.first.end());
  std::size_t taken = 0;
  BpeScratch::Candidate next = 0;
  while (take_next(scratch, taken, next)) {
    const auto position = static_cast<std::int32_t>(next & 0xFFFFFFFFU);
    const Merge* merge = merge_at(position, scratch);
    // Either side may have been merged since: the pair there now has its own candidate.
    if (merge != nullptr && candidate(*merge, position) == next)
      join(position, merge->result, scratch);
  }
}

}  // namespace quire
