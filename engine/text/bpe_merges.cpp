#include <algorithm>
#include <bit>
#include <numeric>

#include "engine/text/bpe.h"

namespace quire {
namespace {

std::uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

std::size_t mix(std::uint64_t key) {
  key *= 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(key ^ (key >> 29));
}

// Ids from the highest score to the lowest share a rank when their scores are equal.
std::vector<std::uint32_t> ranks_by_score(const std::vector<double>& scores) {
  std::vector<TokenId> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&scores](TokenId id) { return scores[static_cast<std::size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&score](TokenId a, TokenId b) { return score(a) > score(b); });
  std::vector<std::uint32_t> ranks(scores.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) < score(order[i - 1])) ++rank;
    ranks[static_cast<std::size_t>(order[i])] = rank;
  }
  return ranks;
}

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

MergeTable::MergeTable(std::size_t expected) {
  entries_.resize(std::bit_ceil(expected * 2 + 2));
}

MergeTable::Entry& MergeTable::slot(std::uint64_t pair) {
  const std::size_t mask = entries_.size() - 1;
  std::size_t i = mix(pair) & mask;
  while (entries_[i].merge.result >= 0 && entries_[i].pair != pair) i = (i + 1) & mask;
  return entries_[i];
}

void MergeTable::grow() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  for (const Entry& entry : old)
    if (entry.merge.result >= 0) slot(entry.pair) = entry;
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  if ((size_ + 1) * 2 > entries_.size()) grow();
  Entry& entry = slot(pair_key(left, right));
  if (entry.merge.result < 0) ++size_;
  entry = {pair_key(left, right), merge};
}

const Merge* MergeTable::find(TokenId left, TokenId right) const {
  const Entry& entry = const_cast<MergeTable*>(this)->slot(pair_key(left, right));
  return entry.merge.result >= 0 ? &entry.merge : nullptr;
}

MergeTable merges_from_scores(const Vocabulary& vocabulary, const std::vector<double>& scores,
                              const std::vector<bool>& usable) {
  const std::vector<std::uint32_t> ranks = ranks_by_score(scores);
  MergeTable table(static_cast<std::size_t>(vocabulary.size()) * 2);
  const auto usable_id = [&](std::string_view text) {
    const TokenId id = vocabulary.find(text);
    return id >= 0 && usable[static_cast<std::size_t>(id)] ? id : -1;
  };
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    if (!usable[static_cast<std::size_t>(id)] || vocabulary.find(text) != id) continue;
    if (text.size() > kMaxScoredBytes) continue;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (is_continuation(text[cut])) continue;
      const TokenId left = usable_id(text.substr(0, cut));
      const TokenId right = left < 0 ? -1 : usable_id(text.substr(cut));
      if (right < 0) continue;
      if (table.size() >= kMaxMerges) return table;
      table.add(left, right, {ranks[static_cast<std::size_t>(id)], id});
    }
  }
  return table;
}

}  // namespace quire
