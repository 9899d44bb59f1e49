#include "engine/core/block_manager.h"

#include <algorithm>

#include "engine/core/block_hash.h"
#include "kernels/check.h"

namespace quire {

BlockManager::BlockManager(int num_blocks, int block_size, bool enable_prefix_caching,
                           std::unique_ptr<PrefixIndex> prefix_index)
    : block_size_(block_size),
      enable_prefix_caching_(enable_prefix_caching),
      blocks_(static_cast<std::size_t>(num_blocks)),
      free_(num_blocks),
      index_(std::move(prefix_index)) {
  QUIRE_CHECK(num_blocks >= 1 && block_size >= 1, num_blocks, block_size);
}

std::span<const BlockId> BlockManager::table(RequestId request) const {
  const auto it = tables_.find(request);
  return it == tables_.end() ? std::span<const BlockId>() : it->second.blocks;
}

BlockView BlockManager::view(BlockId block) const {
  return {at(block).ref_count, at(block).hash.has_value(), at(block).owner};
}

void BlockManager::extend_hashes(Request& request) const {
  auto& hashes = request.block_hashes;
  const int known = request.num_tokens() - request.num_placeholders;
  const std::span<const TokenId> tokens = request.token_ids;
  while ((static_cast<int>(hashes.size()) + 1) * block_size_ <= known) {
    const BlockHash* parent = hashes.empty() ? nullptr : &hashes.back();
    hashes.push_back(hash_block(parent, tokens.subspan(hashes.size() * block_size_, block_size_),
                                request.cache_key));
  }
}

std::vector<BlockId> BlockManager::find_cached_prefix(Request& request) const {
  if (!enable_prefix_caching_) return {};
  extend_hashes(request);
  const std::span<const BlockHash> chain = request.block_hashes;
  const auto limit = static_cast<std::size_t>((request.num_tokens() - 1) / block_size_);
  return index_->longest_prefix(chain.first(std::min(limit, chain.size())));
}

int BlockManager::blocks_needed(const Request& request, int num_tokens,
                                std::span<const BlockId> adopted) const {
  const int held = static_cast<int>(table(request.id).size() + adopted.size());
  const auto reclaimed =
      std::ranges::count_if(adopted, [&](BlockId b) { return at(b).ref_count == 0; });
  return std::max(0, blocks_for(num_tokens) - held) + static_cast<int>(reclaimed);
}

bool BlockManager::allocate_slots(const Request& request, int num_new_tokens,
                                  std::span<const BlockId> adopted) {
  const int total =
      request.num_computed_tokens + static_cast<int>(adopted.size()) * block_size_ + num_new_tokens;
  if (blocks_needed(request, total, adopted) > num_free()) return false;
  Table& table = tables_[request.id];
  QUIRE_CHECK(adopted.empty() || table.blocks.empty(), index(request.id));
  for (const BlockId block : adopted) {
    adopt(block, request.id);
    table.blocks.push_back(block);
  }
  if (!adopted.empty()) table.num_published = static_cast<int>(adopted.size());
  while (static_cast<int>(table.blocks.size()) < blocks_for(total))
    table.blocks.push_back(take_free(request.id));
  return true;
}

BlockId BlockManager::take_free(RequestId request) {
  const BlockId block = free_.front();
  free_.remove(block);
  if (at(block).hash) {
    --num_cached_free_;
    ++num_evictions_;
    log(BlockEventKind::kEvict, block, kNoRequest, at(block).hash);
    drop_hash(block);
  }
  at(block).ref_count = 1;
  at(block).owner = request;
  log(BlockEventKind::kAlloc, block, request);
  return block;
}

void BlockManager::adopt(BlockId block, RequestId request) {
  Block& state = at(block);
  QUIRE_CHECK(state.hash.has_value(), index(block), index(request));
  if (state.ref_count == 0) {
    free_.remove(block);
    --num_cached_free_;
    state.owner = request;
  }
  ++state.ref_count;
  log(BlockEventKind::kAdopt, block, request, state.hash);
}

void BlockManager::publish(Request& request, int num_tokens) {
  if (!enable_prefix_caching_) return;
  const auto it = tables_.find(request.id);
  QUIRE_CHECK(it != tables_.end(), index(request.id));
  Table& table = it->second;
  if (!table.may_publish) return;
  extend_hashes(request);
  const std::span<const BlockHash> chain = request.block_hashes;
  const int full = std::min({num_tokens / block_size_, static_cast<int>(chain.size()),
                             static_cast<int>(table.blocks.size())});
  for (int i = table.num_published; i < full; ++i) {
    const BlockId block = table.blocks[i];
    QUIRE_CHECK(!at(block).hash, index(block), index(request.id));
    if (!index_->insert(chain.first(i + 1), block)) continue;
    at(block).hash = chain[i];
    fresh_.push_back({block, request.id, i});
    log(BlockEventKind::kPublish, block, request.id, chain[i]);
  }
  table.num_published = std::max(table.num_published, full);
}

void BlockManager::withdraw(const Fresh& fresh) {
  log(BlockEventKind::kWithdraw, fresh.block, fresh.request, at(fresh.block).hash);
  drop_hash(fresh.block);
  Table& table = tables_.at(fresh.request);
  table.num_published = std::min(table.num_published, fresh.table_idx);
}

void BlockManager::withdraw_published() {
  for (auto it = fresh_.rbegin(); it != fresh_.rend(); ++it) withdraw(*it);
  fresh_.clear();
}

void BlockManager::withdraw_published(RequestId request) {
  for (auto it = fresh_.rbegin(); it != fresh_.rend(); ++it)
    if (it->request == request) withdraw(*it);
  std::erase_if(fresh_, [&](const Fresh& fresh) { return fresh.request == request; });
}

bool BlockManager::fresh_blocks_shared(RequestId request) const {
  return std::ranges::any_of(fresh_, [&](const Fresh& fresh) {
    return fresh.request == request && at(fresh.block).ref_count > 1;
  });
}

void BlockManager::drop_hash(BlockId block) {
  index_->erase(*at(block).hash);
  at(block).hash.reset();
}

void BlockManager::drop_reference(BlockId block, RequestId request) {
  Block& state = at(block);
  QUIRE_CHECK(state.ref_count > 0, index(block), index(request));
  if (--state.ref_count > 0) {
    log(BlockEventKind::kRelease, block, request);
    return;
  }
  state.owner = kNoRequest;
  if (state.hash) {
    free_.push_back(block);
    ++num_cached_free_;
  } else {
    free_.push_front(block);
  }
  log(BlockEventKind::kFree, block, request);
}

void BlockManager::free(RequestId request) {
  const auto it = tables_.find(request);
  if (it == tables_.end()) return;
  const std::vector<BlockId> blocks = std::move(it->second.blocks);
  tables_.erase(it);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block)
    drop_reference(*block, request);
}

void BlockManager::trim(RequestId request, int num_tokens) {
  const auto it = tables_.find(request);
  if (it == tables_.end()) return;
  Table& table = it->second;
  const int keep = blocks_for(num_tokens);
  while (static_cast<int>(table.blocks.size()) > keep) {
    const BlockId block = table.blocks.back();
    table.blocks.pop_back();
    if (at(block).ref_count == 1 && at(block).hash) {
      log(BlockEventKind::kWithdraw, block, request, at(block).hash);
      drop_hash(block);
      std::erase_if(fresh_, [&](const Fresh& fresh) { return fresh.block == block; });
    }
    drop_reference(block, request);
  }
  table.num_published = std::min(table.num_published, keep);
}

void BlockManager::reset_prefix_cache() {
  QUIRE_CHECK(fresh_.empty());
  for (int b = 0; b < num_blocks(); ++b) {
    if (!blocks_[b].hash) continue;
    log(BlockEventKind::kEvict, BlockId{b}, kNoRequest, blocks_[b].hash);
    blocks_[b].hash.reset();
    ++num_evictions_;
  }
  index_->clear();
  num_cached_free_ = 0;
  for (auto& [request, table] : tables_) table.may_publish = false;
}

void BlockManager::log(BlockEventKind kind, BlockId block, RequestId request,
                       const std::optional<BlockHash>& hash) {
  if (events_ != nullptr)
    events_->push_back({kind, block, request, kNoBlock, hash.value_or(BlockHash{})});
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
    QUIRE_CHECK(block.ref_count == references[b], b, block.ref_count, references[b]);
    QUIRE_CHECK(free_.contains(BlockId{b}) == (block.ref_count == 0), b, block.ref_count);
    QUIRE_CHECK((block.owner == kNoRequest) == (block.ref_count == 0), b, index(block.owner));
    if (block.hash) {
      ++num_hashed;
      QUIRE_CHECK(index_->find(*block.hash) == BlockId{b}, b);
    }
    ++(block.ref_count > 0 ? num_referenced : block.hash ? num_free_cached : num_free_empty);
  }
  QUIRE_CHECK(num_hashed == index_->size(), num_hashed, index_->size());
  QUIRE_CHECK(num_free_cached == num_cached_free_, num_free_cached, num_cached_free_);
  QUIRE_CHECK(num_free_empty + num_free_cached == num_free(), num_free_empty, num_free_cached);
  QUIRE_CHECK(num_free() + num_referenced == num_blocks(), num_free(), num_referenced);
}

}  // namespace quire
