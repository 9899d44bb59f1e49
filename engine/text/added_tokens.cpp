#include "engine/text/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/text/utf8.h"

namespace quire {
namespace {

// `ranges` are sorted and disjoint.
bool lies_in_a_range(std::size_t begin, std::size_t end, std::span<const ByteRange> ranges) {
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), begin,
      [](std::size_t value, const ByteRange& range) { return value < range.begin; });
  return after != ranges.begin() && end <= std::prev(after)->end;
}

bool special_allowed(std::size_t begin, std::size_t end, const EncodeOptions& options) {
  switch (options.specials) {
    case EncodeOptions::Specials::kEverywhere:
      return true;
    case EncodeOptions::Specials::kNowhere:
      return false;
    case EncodeOptions::Specials::kRanges:
      return lies_in_a_range(begin, end, options.special_ranges);
  }
  return false;
}

// Start of the character that ends at `end`; `end` - 1 when the bytes there are not valid UTF-8.
std::size_t character_before(std::string_view text, std::size_t end) {
  for (std::size_t length = 1; length <= 4 && length <= end; ++length) {
    const Utf8Step step = read_utf8(text.substr(0, end), end - length);
    if (step.kind == Utf8Kind::kValid && step.length == length) return end - length;
  }
  return end - 1;
}

bool is_word_character(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

bool stands_alone(std::string_view text, Span match) {
  const auto is_word_at = [text](std::size_t pos) {
    return is_word_character(read_utf8(text, pos).code_point);
  };
  const bool word_before = match.begin > 0 && is_word_at(character_before(text, match.begin));
  const bool word_after = match.end < text.size() && is_word_at(match.end);
  return !word_before && !word_after;
}

std::size_t skip_space_left(std::string_view text, std::size_t begin, std::size_t floor) {
  while (begin > floor) {
    const std::size_t previous = character_before(text, begin);
    if (previous < floor || !is_white_space(read_utf8(text, previous).code_point)) break;
    begin = previous;
  }
  return begin;
}

std::size_t skip_space_right(std::string_view text, std::size_t end) {
  while (end < text.size()) {
    const Utf8Step step = read_utf8(text, end);
    if (step.kind != Utf8Kind::kValid || !is_white_space(step.code_point)) break;
    end += step.length;
  }
  return end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), token_at_(1, -1), root_edges_(256, -1) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::int32_t node = 0;
    for (const char c : tokens_[i].content) {
      const auto byte = static_cast<unsigned char>(c);
      const auto next = static_cast<std::int32_t>(token_at_.size());
      const auto key = (static_cast<std::uint64_t>(node) << 8) | byte;
      const auto [edge, is_new] = edges_.try_emplace(key, next);
      if (is_new) token_at_.push_back(-1);
      if (node == 0) root_edges_[byte] = edge->second;
      node = edge->second;
    }
    token_at_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(i);
  }
}

std::int32_t AddedTokenMatcher::child(std::int32_t node, unsigned char byte) const {
  if (node == 0) return root_edges_[byte];
  const auto edge = edges_.find((static_cast<std::uint64_t>(node) << 8) | byte);
  return edge == edges_.end() ? -1 : edge->second;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, std::size_t pos,
                                                std::size_t offset, const EncodeOptions& options,
                                                bool specials_possible) const {
  const AddedToken* best = nullptr;
  std::int32_t node = 0;
  for (std::size_t end = pos; end < text.size();) {
    node = child(node, static_cast<unsigned char>(text[end]));
    if (node < 0) break;
    ++end;
    const std::int32_t index = token_at_[static_cast<std::size_t>(node)];
    if (index < 0) continue;
    const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
    if (!token.special ||
        (specials_possible && special_allowed(offset + pos, offset + end, options)))
      best = &token;
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, std::size_t offset,
                              const EncodeOptions& options, bool specials_possible,
                              std::vector<TextSegment>& out) const {
  std::size_t done = 0;  // [0, done) has been given out
  for (std::size_t pos = 0; pos < text.size() && !tokens_.empty();) {
    const AddedToken* token = longest_at(text, pos, offset, options, specials_possible);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    Span match{pos, pos + token->content.size()};
    pos = match.end;
    if (token->single_word && !stands_alone(text, match)) continue;
    if (token->lstrip) match.begin = skip_space_left(text, match.begin, done);
    if (token->rstrip) match.end = skip_space_right(text, match.end);
    if (match.begin > done) out.push_back({{done, match.begin}, -1});
    out.push_back({match, token->id});
    done = pos = match.end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
}

}  // namespace quire
