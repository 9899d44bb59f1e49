#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"

namespace quire {
namespace {

// Moves whole characters from `pending` to the result; invalid stretches become U+FFFD. An
// unfinished character at the end stays.
std::string take_characters(std::string& pending) {
  std::string out;
  std::size_t pos = 0;
  while (pos < pending.size()) {
    const Utf8Step step = read_utf8(pending, pos);
    if (step.kind == Utf8Kind::kTruncated) break;
    out += step.kind == Utf8Kind::kValid ? std::string_view(pending).substr(pos, step.length)
                                         : kReplacementCharacter;
    pos += step.length;
  }
  pending.erase(0, pos);
  return out;
}

}  // namespace

std::string StreamDetokenizer::push(TokenId id) {
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return {};
  if (at_start_ && tokenizer_->strips_leading_space() && bytes.front() == ' ')
    bytes.remove_prefix(1);
  at_start_ = false;
  pending_ += bytes;
  return take_characters(pending_);
}

std::string StreamDetokenizer::finish() {
  std::string out = take_characters(pending_);
  if (!pending_.empty()) out += kReplacementCharacter;
  pending_.clear();
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_control) const {
  std::string bytes;
  bool at_start = true;
  for (const TokenId id : ids) {
    std::string_view part = token_bytes(id);
    if (!skip_control && is_control(id)) part = token_text(id);
    if (part.empty()) continue;
    if (at_start && strips_leading_space() && part.front() == ' ') part.remove_prefix(1);
    at_start = false;
    bytes += part;
  }
  std::string out = take_characters(bytes);
  if (!bytes.empty()) out += kReplacementCharacter;
  return out;
}

}  // namespace quire
