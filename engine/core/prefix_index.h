#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/core/engine_config.h"
#include "engine/core/ids.h"

namespace quire {

// A request's known tokens as an index sees them.
struct PrefixKey {
  std::span<const TokenId> tokens;
  std::span<const BlockHash> chain;  // of the full blocks among them, see block_hash.h
  BlockHash root{};                  // names whatever else must be equal (cache_key, cache_salt)
};

struct PrefixMatch {
  std::vector<BlockId> blocks;  // whole blocks, in order
  BlockId partial = kNoBlock;   // a block whose first `partial_tokens` tokens come next
  int partial_tokens = 0;
  // The near miss: position of the request's first token that no cached block continues with, be it
  // inside a block (which only some indexes can reuse in part), and the token the closest cached
  // block has there instead; of several that with the next higher token, else the next lower. Both
  // -1 when what was asked for ends first, or no cached block goes on.
  TokenId cached_token = -1;
  int differs_at = -1;
};

// Which block holds which prefix, and which of the cached blocks nobody refers to is given up next.
// The first block inserted for a prefix keeps it. Engine thread only.
class PrefixIndex {
 public:
  virtual ~PrefixIndex() = default;

  // Longest cached run at the start of `key`, at most `max_tokens` long.
  virtual PrefixMatch match(const PrefixKey& key, int max_tokens) const = 0;
  // Makes `block` findable as block number `position` of `key`, holding `num_tokens` of its tokens
  // (a whole block, or less where the index takes that). False, changing nothing, if that prefix
  // has a block already, or if what comes before it is not indexed and the index needs it to be.
  virtual bool insert(const PrefixKey& key, int position, int num_tokens, BlockId block) = 0;
  // Whether blocks that are not full can be inserted, and partial matches are made.
  virtual bool partial_blocks() const = 0;
  // Makes `block` unfindable, and with it every block that can then not be found: those are
  // returned, `block` first. Empty if it was not indexed.
  virtual std::vector<BlockId> erase(BlockId block) = 0;
  virtual bool contains(BlockId block) const = 0;
  virtual void clear() = 0;
  virtual int size() const = 0;

  // An indexed block lost its last reference (`released`) or got its first one (`reused`).
  virtual void released(BlockId block) = 0;
  virtual void reused(BlockId block) = 0;
  // The released block to give up next; kNoBlock when there is none.
  virtual BlockId victim() const = 0;
  virtual int num_released() const = 0;
  // Soon `blocks` will be released or reused, or the next `count` victims erased, or blocks `begin`
  // to `end` of `key` inserted: a chance to fetch what that will touch all at once instead of one
  // miss behind the other. Returns those victims if it looked.
  virtual void prefetch(std::span<const BlockId> /*blocks*/) const {}
  virtual std::vector<BlockId> prefetch_victims(int /*count*/) const { return {}; }
  virtual void prefetch_insert(const PrefixKey& /*key*/, int /*begin*/, int /*end*/) const {}
  // Tokens `block` is indexed with; 0 if it is not.
  virtual int num_tokens(BlockId block) const = 0;

  // That its own structures agree; aborts otherwise.
  virtual void check_integrity() const = 0;
};

// One flat map from chained hash to block: a chained hash already names the whole prefix. Gives up
// blocks in the order they were released.
std::unique_ptr<PrefixIndex> make_hash_chain_index(int num_blocks, int block_size);
// A tree whose edges are blocks of tokens, compared token by token. A block that is not full is a
// leaf for good: matched in part, continued by nothing. It is not taken when a block already begins
// with its tokens; when such a block comes later both stay, and the shorter is given up first.
// Otherwise gives up the least recently released leaf, or, when all released blocks lead to others
// that are in use, the least recently released of them.
std::unique_ptr<PrefixIndex> make_radix_index(int num_blocks, int block_size);
std::unique_ptr<PrefixIndex> make_prefix_index(PrefixIndexKind kind, int num_blocks,
                                               int block_size);

}  // namespace quire
