#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/ids.h"

namespace quire {

// Bounds on what a tokenizer file may declare; every loader checks them before it allocates.
inline constexpr std::size_t kMaxVocabularySize = std::size_t{1} << 22;
inline constexpr std::size_t kMaxTokenBytes = std::size_t{1} << 16;
inline constexpr std::size_t kMaxVocabularyBytes = std::size_t{1} << 30;

// Strings packed end to end. Views into it are good until the next push.
class StringPool {
 public:
  void push(std::string_view text) {
    bytes_.append(text);
    ends_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  std::size_t size() const { return ends_.size(); }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  std::string bytes_;
  std::vector<std::uint32_t> ends_;
};

// Token texts by id, and ids by text. Ids without a text (holes in a sparse vocabulary) are "" and
// are never found; of two ids with one text the lower is found.
class Vocabulary {
 public:
  Vocabulary() = default;
  explicit Vocabulary(StringPool texts);

  std::string_view text(TokenId id) const { return texts_[static_cast<std::size_t>(id)]; }
  TokenId find(std::string_view text) const;  // -1: none
  int size() const { return static_cast<int>(texts_.size()); }
  bool contains(TokenId id) const { return id >= 0 && id < size(); }

 private:
  struct Slot {
    std::uint32_t hash = 0;  // spares most comparisons with other texts
    TokenId id = -1;         // -1: free
  };
  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;

  StringPool texts_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace quire
