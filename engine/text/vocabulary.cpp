#include "engine/text/vocabulary.h"

#include <bit>
#include <functional>

namespace quire {

Vocabulary::Vocabulary(StringPool texts) : texts_(std::move(texts)) {
  slots_.assign(std::bit_ceil(texts_.size() * 2 + 1), -1);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    const std::string_view text = texts_[id];
    if (text.empty()) continue;
    std::size_t slot = std::hash<std::string_view>{}(text)&mask;
    while (slots_[slot] >= 0 && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
    if (slots_[slot] < 0) slots_[slot] = static_cast<TokenId>(id);
  }
}

TokenId Vocabulary::find(std::string_view text) const {
  if (text.empty() || slots_.empty()) return -1;
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] >= 0) {
    if (this->text(slots_[slot]) == text) return slots_[slot];
    slot = (slot + 1) & mask;
  }
  return -1;
}

}  // namespace quire
