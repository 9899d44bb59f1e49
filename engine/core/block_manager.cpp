#include "engine/core/block_manager.h"

#include <algorithm>

#include "engine/core/block_hash.h"
#include "engine/core/mutation.h"
#include "engine/core/prefetch.h"
#include "kernels/check.h"

namespace quire {

BlockManager::BlockManager(int num_blocks, int block_size, std::unique_ptr<PrefixIndex> index)
    : block_size_(block_size),
      blocks_(static_cast<std::size_t>(num_blocks)),
      free_(num_blocks),
      index_(std::move(index)) {
  QUIRE_CHECK(num_blocks >= 1 && block_size >= 1, num_blocks, block_size);
}

std::span<const BlockId> BlockManager::table(RequestId request) const {
  const auto it = tables_.find(request);
  return it == tables_.end() ? std::span<const BlockId>() : it->second.blocks;
}

int BlockManager::num_private_blocks(RequestId request, std::span<const BlockId> except) const {
  const auto held = table(request);
  for (const BlockId block : held) prefetch_line(&at(block));
  return static_cast<int>(std::ranges::count_if(held, [&](BlockId block) {
    return at(block).ref_count == 1 && !std::ranges::binary_search(except, block);
  }));
}

BlockView BlockManager::view(BlockId block) const {
  return {at(block).ref_count, at(block).hash.has_value(), at(block).owner};
}

void BlockManager::extend_hashes(Request& request) const {
  if (index_ == nullptr) return;
  auto& hashes = request.block_hashes;
  if (hashes.empty()) hashes.push_back(hash_root(request.cache_key, request.cache_salt));
  const int known = request.num_tokens() - request.num_placeholders;
  const std::span<const TokenId> tokens = request.token_ids;
  while (static_cast<int>(hashes.size()) * block_size_ <= known) {
    const std::size_t begin = (hashes.size() - 1) * static_cast<std::size_t>(block_size_);
    hashes.push_back(hash_block(hashes.back(), tokens.subspan(begin, block_size_)));
  }
}

PrefixKey BlockManager::key_of(const Request& request) const {
  const std::span<const BlockHash> hashes = request.block_hashes;
  const std::span<const TokenId> tokens = request.token_ids;
  return {tokens.first(request.num_tokens() - request.num_placeholders), hashes.subspan(1),
          hashes.front()};
}

PrefixMatch BlockManager::find_cached_prefix(Request& request, int max_tokens) const {
  if (index_ == nullptr || max_tokens <= 0) return {};
  extend_hashes(request);
  PrefixMatch match = index_->match(key_of(request), max_tokens);
  if (match.partial != kNoBlock && at(match.partial).fresh) {
    match.partial = kNoBlock;
    match.partial_tokens = 0;
  }
  const int matched = static_cast<int>(match.blocks.size()) * block_size_ + match.partial_tokens;
  if (mutated(Mutation::kPartialCopyTooLong) && match.partial != kNoBlock && matched < max_tokens)
    ++match.partial_tokens;
  return match;
}

int BlockManager::blocks_needed(const Request& request, int num_tokens,
                                std::span<const BlockId> adopted) const {
  const int held = static_cast<int>(table(request.id).size() + adopted.size());
  const auto reclaimed =
      std::ranges::count_if(adopted, [&](BlockId b) { return at(b).ref_count == 0; });
  return std::max(0, blocks_for(num_tokens) - held) + static_cast<int>(reclaimed);
}

bool BlockManager::allocate_slots(const Request& request, int num_tokens,
                                  const PrefixMatch& adopted) {
  if (blocks_needed(request, num_tokens, adopted.blocks) > num_free()) return false;
  if (adopted.partial != kNoBlock && at(adopted.partial).ref_count == 0) {
    index_->reused(adopted.partial);  // copying from it is a use
    index_->released(adopted.partial);
  }
  Table& table = tables_[request.id];
  QUIRE_CHECK(adopted.blocks.empty() || table.blocks.empty(), index(request.id));
  prefetch(adopted.blocks);
  for (const BlockId block : adopted.blocks) {
    adopt(block, request.id);
    table.blocks.push_back(block);
  }
  if (!adopted.blocks.empty()) table.num_published = static_cast<int>(adopted.blocks.size());
  const int missing = blocks_for(num_tokens) - static_cast<int>(table.blocks.size());
  if (missing > 1) prefetch_free(missing);
  for (int i = 0; i < missing; ++i) table.blocks.push_back(take_free(request.id));
  return true;
}

BlockId BlockManager::take_free(RequestId request) {
  if (free_.size() == 0) unindex(index_->victim());
  const BlockId block = free_.front();
  free_.remove(block);
  at(block).ref_count = 1;
  at(block).owner = request;
  log(BlockEventKind::kAlloc, block, request);
  return block;
}

void BlockManager::adopt(BlockId block, RequestId request) {
  Block& state = at(block);
  QUIRE_CHECK(state.hash.has_value(), index(block), index(request));
  if (state.ref_count == 0) {
    index_->reused(block);
    state.owner = request;
  }
  ++state.ref_count;
  fresh_adopted_ |= state.fresh;
  log(BlockEventKind::kAdopt, block, request, state.hash);
}

void BlockManager::publish(Request& request, int num_tokens) {
  if (index_ == nullptr) return;
  const auto it = tables_.find(request.id);
  QUIRE_CHECK(it != tables_.end(), index(request.id));
  Table& table = it->second;
  if (!table.may_publish || request.outdated) return;
  extend_hashes(request);
  const PrefixKey key = key_of(request);
  const int full = std::min({num_tokens / block_size_, static_cast<int>(key.chain.size()),
                             static_cast<int>(table.blocks.size())});
  if (full > table.num_published + 1) index_->prefetch_insert(key, table.num_published, full);
  for (int i = table.num_published; i < full; ++i) {
    const BlockId block = table.blocks[i];
    QUIRE_CHECK(!at(block).hash, index(block), index(request.id));
    if (!index_->insert(key, i, block_size_, block)) continue;
    at(block).hash = key.chain[i];
    at(block).num_tokens = block_size_;
    at(block).fresh = true;
    fresh_.push_back({block, request.id, i});
    log(BlockEventKind::kPublish, block, request.id, key.chain[i]);
  }
  table.num_published = std::max(table.num_published, full);
}

void BlockManager::publish_tail(Request& request, int num_tokens) {
  if (index_ == nullptr || !index_->partial_blocks()) return;
  const int length = num_tokens % block_size_, position = num_tokens / block_size_;
  const auto it = tables_.find(request.id);
  if (it == tables_.end() || length == 0) return;
  if (!it->second.may_publish || request.outdated) return;
  Table& table = it->second;
  if (position != table.num_published || position >= static_cast<int>(table.blocks.size())) return;
  extend_hashes(request);
  const PrefixKey key = key_of(request);
  QUIRE_CHECK(num_tokens <= static_cast<int>(key.tokens.size()), index(request.id), num_tokens);
  const BlockId block = table.blocks[position];
  if (at(block).hash || !index_->insert(key, position, length, block)) return;
  at(block).hash =
      hash_block(request.block_hashes[position],
                 key.tokens.subspan(static_cast<std::size_t>(position) * block_size_, length));
  at(block).num_tokens = length;
  log(BlockEventKind::kPublish, block, request.id, at(block).hash);
}

void BlockManager::commit_published() {
  for (const Fresh& fresh : fresh_) at(fresh.block).fresh = false;
  fresh_.clear();
  fresh_adopted_ = false;
}

void BlockManager::withdraw(const Fresh& fresh) {
  at(fresh.block).fresh = false;
  if (at(fresh.block).hash) unindex(fresh.block);
  const auto it = tables_.find(fresh.request);
  if (it == tables_.end()) return;
  it->second.num_published = std::min(it->second.num_published, fresh.table_idx);
}

void BlockManager::withdraw_published() {
  if (mutated(Mutation::kHashNotWithdrawn)) return commit_published();
  for (auto it = fresh_.rbegin(); it != fresh_.rend(); ++it) withdraw(*it);
  fresh_.clear();
  fresh_adopted_ = false;
}

void BlockManager::withdraw_published(RequestId request) {
  for (auto it = fresh_.rbegin(); it != fresh_.rend(); ++it)
    if (it->request == request) withdraw(*it);
  std::erase_if(fresh_, [&](const Fresh& fresh) { return fresh.request == request; });
}

bool BlockManager::fresh_blocks_shared(RequestId request) const {
  return fresh_adopted_ && std::ranges::any_of(fresh_, [&](const Fresh& fresh) {
           return fresh.request == request && at(fresh.block).ref_count > 1;
         });
}

// Forgets what `block` holds, and what only it leads to.
void BlockManager::unindex(BlockId block) {
  for (const BlockId lost : index_->erase(block)) {
    Block& state = at(lost);
    const bool cached_free = state.ref_count == 0;
    log(cached_free ? BlockEventKind::kEvict : BlockEventKind::kWithdraw, lost,
        cached_free ? kNoRequest : state.owner, state.hash);
    state.hash.reset();
    if (!cached_free) continue;
    ++num_evictions_;
    num_evicted_tokens_ += state.num_tokens;
    free_.push_front(lost);
  }
}

void BlockManager::drop_reference(BlockId block, RequestId request) {
  Block& state = at(block);
  QUIRE_CHECK(state.ref_count > 0, index(block), index(request));
  if (--state.ref_count > 0) {
    log(BlockEventKind::kRelease, block, request);
    return;
  }
  state.owner = kNoRequest;
  if (state.hash)
    index_->released(block);
  else
    free_.push_front(block);
  log(BlockEventKind::kFree, block, request);
}

void BlockManager::free(RequestId request) {
  const auto it = tables_.find(request);
  if (it == tables_.end()) return;
  std::vector<BlockId> blocks = std::move(it->second.blocks);
  tables_.erase(it);
  if (mutated(Mutation::kLeakedBlock)) blocks.erase(blocks.begin());
  if (mutated(Mutation::kDoubleFree)) blocks.push_back(blocks.back());
  prefetch(blocks);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    drop_reference(*block, request);
}

void BlockManager::prefetch_free(int num_taken) const {
  if (free_.size() >= num_taken || index_ == nullptr) return;
  for (const BlockId victim : index_->prefetch_victims(num_taken - free_.size())) {
    prefetch_line(&at(victim));
    prefetch_line(&at(victim).fresh);  // a block may lie on two lines
    free_.prefetch(victim);
  }
}

void BlockManager::prefetch_publish(Request& request, int num_tokens) const {
  if (index_ == nullptr) return;
  extend_hashes(request);
  const int full =
      std::min(num_tokens / block_size_, static_cast<int>(request.block_hashes.size()) - 1);
  if (full > 0) index_->prefetch_insert(key_of(request), full - 1, full);
}

void BlockManager::prefetch(std::span<const BlockId> blocks) const {
  for (const BlockId block : blocks) {
    prefetch_line(&at(block));
    prefetch_line(&at(block).fresh);  // a block may lie on two lines
  }
  if (index_ != nullptr) index_->prefetch(blocks);
}

void BlockManager::trim(RequestId request, int num_tokens) {
  const auto it = tables_.find(request);
  if (it == tables_.end()) return;
  if (mutated(Mutation::kDraftSlotsKept)) return;
  Table& table = it->second;
  const int keep = blocks_for(num_tokens);
  while (static_cast<int>(table.blocks.size()) > keep) {
    const BlockId block = table.blocks.back();
    table.blocks.pop_back();
    if (at(block).ref_count == 1 && at(block).hash) {
      unindex(block);
      at(block).fresh = false;
      std::erase_if(fresh_, [&](const Fresh& fresh) { return fresh.block == block; });
    }
    drop_reference(block, request);
  }
  table.num_published = std::min(table.num_published, keep);
}

void BlockManager::reset_prefix_cache() {
  QUIRE_CHECK(fresh_.empty());
  if (index_ == nullptr) return;
  for (int b = 0; b < num_blocks(); ++b) {
    const BlockId block{b};
    if (!at(block).hash) continue;
    log(BlockEventKind::kEvict, block, kNoRequest, at(block).hash);
    at(block).hash.reset();
    ++num_evictions_;
    num_evicted_tokens_ += at(block).num_tokens;
    if (at(block).ref_count == 0) free_.push_back(block);
  }
  index_->clear();
  for (auto& [request, table] : tables_) table.may_publish = false;
}

void BlockManager::log(BlockEventKind kind, BlockId block, RequestId request,
                       const std::optional<BlockHash>& hash) {
  if (events_ != nullptr) events_->push_back({kind, block, request, hash.value_or(BlockHash{})});
}

void BlockManager::check_integrity() const {
  std::vector<int> references(blocks_.size(), 0);
  for (const auto& [request, table] : tables_) {
    QUIRE_CHECK(table.num_published <= static_cast<int>(table.blocks.size()), index(request));
    for (const BlockId block : table.blocks) {
      QUIRE_CHECK(index(block) >= 0 && index(block) < num_blocks(), index(block));
      ++references[index(block)];
    }
  }
  int queued = 0;
  for (BlockId b = free_.size() > 0 ? free_.front() : kNoBlock; b != kNoBlock; b = free_.after(b))
    QUIRE_CHECK(++queued <= free_.size(), queued, free_.size());
  QUIRE_CHECK(queued == free_.size(), queued, free_.size());

  int num_free_empty = 0, num_free_cached = 0, num_referenced = 0, num_hashed = 0;
  for (int b = 0; b < num_blocks(); ++b) {
    const Block& block = blocks_[b];
    const bool hashed = block.hash.has_value();
    QUIRE_CHECK(block.ref_count == references[b], b, block.ref_count, references[b]);
    QUIRE_CHECK(free_.contains(BlockId{b}) == (block.ref_count == 0 && !hashed), b,
                block.ref_count);
    QUIRE_CHECK((block.owner == kNoRequest) == (block.ref_count == 0), b, index(block.owner));
    QUIRE_CHECK(hashed == (index_ != nullptr && index_->contains(BlockId{b})), b);
    num_hashed += hashed ? 1 : 0;
    ++(block.ref_count > 0 ? num_referenced : hashed ? num_free_cached : num_free_empty);
  }
  QUIRE_CHECK(num_free_cached == num_cached_free(), num_free_cached, num_cached_free());
  QUIRE_CHECK(num_free_empty + num_free_cached == num_free(), num_free_empty, num_free_cached);
  QUIRE_CHECK(num_free() + num_referenced == num_blocks(), num_free(), num_referenced);
  if (index_ == nullptr) return;
  QUIRE_CHECK(num_hashed == index_->size(), num_hashed, index_->size());
  index_->check_integrity();
}

}  // namespace quire
