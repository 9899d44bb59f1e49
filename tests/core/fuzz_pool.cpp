#include "tests/core/fuzz_pool.h"

#include <algorithm>

#include "engine/core/block_hash.h"

namespace quire::test {
namespace {

int common_start(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  return static_cast<int>(end - a.begin());
}

// Everything a key must stand for, spelled out.
std::string spell(const ModelRequest& request, int num_tokens) {
  std::string text = std::to_string(request.key.size()) + ':' + request.key +
                     std::to_string(request.salt.size()) + ':' + request.salt;
  for (int i = 0; i < num_tokens; ++i) text += ',' + std::to_string(request.tokens[i]);
  return text;
}

}  // namespace

PoolModel::PoolModel(int num_blocks, int block_size, PrefixIndexKind kind, bool caching)
    : block_size_(block_size),
      kind_(kind),
      caching_(caching),
      blocks_(static_cast<std::size_t>(num_blocks)),
      num_empty_(num_blocks) {}

int PoolModel::num_free() const {
  return num_empty_ + num_cached();
}

const ModelBlock& PoolModel::at(BlockId block) const {
  require(index(block) >= 0 && index(block) < num_blocks(), "a block is one of the pool's",
          index(block));
  return blocks_[static_cast<std::size_t>(index(block))];
}

ModelBlock& PoolModel::mutable_at(BlockId block) {
  return const_cast<ModelBlock&>(at(block));
}

int PoolModel::num_private(const ModelRequest& request) const {
  return static_cast<int>(
      std::ranges::count_if(request.table, [&](BlockId b) { return at(b).refs == 1; }));
}

// Key of the request's first `full_blocks` blocks.
const BlockHash& PoolModel::chain(ModelRequest& request, int full_blocks) {
  if (request.chain.empty()) request.chain.push_back(hash_root(request.key, request.salt));
  while (static_cast<int>(request.chain.size()) <= full_blocks) {
    const std::size_t begin = (request.chain.size() - 1) * static_cast<std::size_t>(block_size_);
    request.chain.push_back(
        hash_block(request.chain.back(),
                   std::span<const TokenId>(request.tokens).subspan(begin, block_size_)));
  }
  return request.chain[full_blocks];
}

bool PoolModel::whole_prefix_cached(ModelRequest& request, int position) {
  return by_hash_.contains(chain(request, position + 1));
}

void PoolModel::apply(const BlockEvent& event, ModelRequest* request, bool forgets) {
  const bool gives_up =
      event.kind == BlockEventKind::kEvict || event.kind == BlockEventKind::kWithdraw;
  if (gives_up) {
    unhash(event, forgets);
    evicting_ = true;
    return;
  }
  evicting_ = false;
  require(request != nullptr, "a block goes to a live request", index(event.request));
  switch (event.kind) {
    case BlockEventKind::kAlloc:
      return alloc(event, *request);
    case BlockEventKind::kAdopt:
      return adopt(event, *request);
    case BlockEventKind::kPublish:
      return publish(event, *request);
    default:
      return give_back(event, *request);
  }
}

void PoolModel::alloc(const BlockEvent& event, ModelRequest& request) {
  ModelBlock& block = mutable_at(event.block);
  require(block.refs == 0 && !block.hashed, "only a free and empty block is handed out",
          index(event.block), block.refs);
  block.refs = 1;
  block.owner = request.id;
  --num_empty_;
  request.table.push_back(event.block);
}

void PoolModel::adopt(const BlockEvent& event, ModelRequest& request) {
  ModelBlock& block = mutable_at(event.block);
  const int position = static_cast<int>(request.table.size());
  require(block.hashed && block.hash == event.hash, "only a findable block is adopted",
          index(event.block));
  require((position + 1) * block_size_ <= request.num_tokens() &&
              event.hash == chain(request, position + 1) &&
              meaning_.at(event.hash) == spell(request, (position + 1) * block_size_),
          "an adopted block holds the adopter's own prefix", index(event.block), index(request.id));
  if (block.refs == 0) {
    cached_.remove(event.block);
    block.owner = request.id;
  }
  ++block.refs;
  request.table.push_back(event.block);
}

// A whole block, or the computed part of the request's last one.
void PoolModel::publish(const BlockEvent& event, ModelRequest& request) {
  const auto place = std::ranges::find(request.table, event.block);
  require(caching_ && place != request.table.end(), "a request publishes its own blocks",
          index(event.block), index(request.id));
  require(!request.outdated, "what a reset forgot is not published again", index(request.id));
  const int position = static_cast<int>(place - request.table.begin());
  const int begin = position * block_size_;
  int length = block_size_;
  if (begin + length > request.num_tokens() || event.hash != chain(request, position + 1)) {
    length = request.computed - begin;
    require(kind_ == PrefixIndexKind::kRadix && length > 0 && length < block_size_,
            "a block is published under its contents", index(event.block), index(request.id));
    require(event.hash == hash_block(chain(request, position),
                                     std::span<const TokenId>(request.tokens)
                                         .subspan(static_cast<std::size_t>(begin), length)),
            "part of a block is published under its contents", index(event.block));
  }
  ModelBlock& block = mutable_at(event.block);
  require(!block.hashed, "a block is published once", index(event.block));
  require(by_hash_.emplace(event.hash, event.block).second, "one block carries a prefix",
          index(event.block));
  const auto [said, first] = meaning_.try_emplace(event.hash, spell(request, begin + length));
  require(first || said->second == spell(request, begin + length), "a key has one meaning",
          index(event.block));
  block.hashed = true;
  block.fresh = length == block_size_;
  block.hash = event.hash;
  block.parent = chain(request, position);
  block.run.assign(request.tokens.begin() + begin, request.tokens.begin() + begin + length);
}

void PoolModel::unhash(const BlockEvent& event, bool forgets) {
  ModelBlock& block = mutable_at(event.block);
  require(block.hashed && block.hash == event.hash, "only what is findable is given up",
          index(event.block));
  if (event.kind == BlockEventKind::kWithdraw) {
    require(block.refs > 0, "a free block's contents are evicted", index(event.block));
    require(block.fresh || kind_ == PrefixIndexKind::kRadix, "only this step's keys are withdrawn",
            index(event.block));
  } else if (!forgets) {
    require(block.refs == 0, "what is in use is not evicted", index(event.block));
    require(num_empty_ == 0 || (evicting_ && kind_ == PrefixIndexKind::kRadix),
            "empty blocks are reused before cached ones", num_empty_);
    require(cached_.front() == event.block || kind_ == PrefixIndexKind::kRadix,
            "the block that was released first is evicted first", index(event.block));
  }
  by_hash_.erase(block.hash);
  block.hashed = block.fresh = false;
  if (block.refs > 0) return;
  cached_.remove(event.block);
  ++num_empty_;
}

void PoolModel::give_back(const BlockEvent& event, ModelRequest& request) {
  ModelBlock& block = mutable_at(event.block);
  require(!request.table.empty() && request.table.back() == event.block,
          "a table is given back from its end", index(event.block), index(request.id));
  request.table.pop_back();
  --block.refs;
  require((event.kind == BlockEventKind::kFree) == (block.refs == 0) && block.refs >= 0,
          "a block is free when nobody refers to it", index(event.block), block.refs);
  if (block.refs > 0) return;
  block.owner = kNoRequest;
  if (block.hashed)
    cached_.push_back(event.block);
  else
    ++num_empty_;
}

ModelMatch PoolModel::match(ModelRequest& request, int max_tokens) {
  ModelMatch found;
  if (!caching_) return found;
  int full = 0;
  while ((full + 1) * block_size_ <= max_tokens) {
    const auto block = by_hash_.find(chain(request, full + 1));
    if (block == by_hash_.end()) break;
    found.blocks.push_back(block->second);
    ++full;
  }
  if (kind_ != PrefixIndexKind::kRadix) return found;
  const BlockHash& path = chain(request, full);
  const auto rest = std::span<const TokenId>(request.tokens)
                        .first(std::max(0, max_tokens))
                        .subspan(static_cast<std::size_t>(full) * block_size_);
  int fresh = 0, settled = 0;
  for (const ModelBlock& block : blocks_) {
    if (!block.hashed || block.parent != path) continue;
    int& best = block.fresh ? fresh : settled;
    best = std::max(best, common_start(block.run, rest));
  }
  found.most_partial = settled;
  found.least_partial = fresh >= settled ? 0 : settled;
  return found;
}

void PoolModel::settle() {
  for (ModelBlock& block : blocks_) block.fresh = false;
}

void PoolModel::check(const std::map<RequestId, ModelRequest>& requests) const {
  std::vector<int> references(blocks_.size(), 0);
  for (const auto& [id, request] : requests) {
    for (std::size_t i = 0; i < request.table.size(); ++i) {
      const BlockId b = request.table[i];
      ++references[static_cast<std::size_t>(index(b))];
      const int end = static_cast<int>(i) * block_size_ + static_cast<int>(at(b).run.size());
      require(!at(b).hashed || end <= request.computed, "what is findable is computed", index(b),
              index(id), request.computed);
    }
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    require(blocks_[b].refs == references[b], "references are table entries", b, blocks_[b].refs,
            references[b]);
}

}  // namespace quire::test
