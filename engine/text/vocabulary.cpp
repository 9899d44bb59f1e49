#include "engine/text/vocabulary.h"

#include <bit>
#include <functional>

namespace quire {
namespace {

std::uint32_t hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(text));
}

}  // namespace

Vocabulary::Vocabulary(StringPool texts) : texts_(std::move(texts)) {
  slots_.resize(std::bit_ceil(texts_.size() * 2 + 1));
  for (std::size_t id = 0; id < texts_.size(); ++id) {
    const std::string_view text = texts_[id];
    if (text.empty()) continue;
    const std::uint32_t hash = hash_of(text);
    Slot& slot = slots_[slot_of(text, hash)];
    if (slot.id < 0) slot = {hash, static_cast<TokenId>(id)};
  }
}

// Where `text` is, or would go.
std::size_t Vocabulary::slot_of(std::string_view text, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  while (slots_[i].id >= 0 && (slots_[i].hash != hash || this->text(slots_[i].id) != text))
    i = (i + 1) & mask;
  return i;
}

TokenId Vocabulary::find(std::string_view text) const {
  if (text.empty() || slots_.empty()) return -1;
  return slots_[slot_of(text, hash_of(text))].id;
}

}  // namespace quire
