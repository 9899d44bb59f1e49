#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/core/ids.h"

namespace quire {

// Which block holds which prefix. A chain is the hashes of a request's full blocks from its first
// on; each hash stands for everything before it. The first block inserted for a hash keeps it.
class PrefixIndex {
 public:
  virtual ~PrefixIndex() = default;
  // Blocks of the longest indexed run at the start of `chain`.
  virtual std::vector<BlockId> longest_prefix(std::span<const BlockHash> chain) const = 0;
  // Makes `block` findable as the end of `chain`. False, changing nothing, if another block is.
  virtual bool insert(std::span<const BlockHash> chain, BlockId block) = 0;
  // kNoBlock when nothing is indexed under `hash`.
  virtual BlockId find(const BlockHash& hash) const = 0;
  virtual void erase(const BlockHash& hash) = 0;
  virtual void clear() = 0;
  virtual int size() const = 0;
};

// One flat hash -> block map: a chained hash already names the whole prefix.
std::unique_ptr<PrefixIndex> make_hash_chain_index();

}  // namespace quire
