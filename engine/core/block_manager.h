#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/core/free_queue.h"
#include "engine/core/large_pages.h"
#include "engine/core/prefix_index.h"
#include "engine/core/request.h"
#include "engine/core/step_record.h"

namespace quire {

// Owns the KV blocks: reference counts, the order in which free ones are reused, and which prefix
// each holds. A block is exactly one of free-empty (no hash), free-cached (contents still findable,
// given up only when reused) and referenced. The scratch block behind the pool is not managed here.
// Only one block carries a given prefix; a later duplicate stays private and unhashed. Hashes
// published since the last `commit_published` can be withdrawn. Engine thread only.
class BlockManager {
 public:
  // `index` null: nothing is ever cached.
  BlockManager(int num_blocks, int block_size, std::unique_ptr<PrefixIndex> index);

  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  int block_size() const { return block_size_; }
  int num_free() const { return free_.size() + num_cached_free(); }
  int num_cached_free() const { return index_ == nullptr ? 0 : index_->num_released(); }
  std::int64_t num_evictions() const { return num_evictions_; }
  std::int64_t num_evicted_tokens() const { return num_evicted_tokens_; }
  int blocks_for(int num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
  std::span<const BlockId> table(RequestId request) const;  // logical order; empty if none
  // Blocks only `request` refers to, those in `except` (sorted) left out: what freeing it would
  // gain.
  int num_private_blocks(RequestId request, std::span<const BlockId> except = {}) const;
  BlockView view(BlockId block) const;
  bool is_fresh(BlockId block) const { return at(block).fresh; }  // published and not committed

  // Receives every event from now on; null: none are made.
  void set_event_log(std::vector<BlockEvent>* log) { events_ = log; }

  // Hashes the full blocks of the tokens the request has. Every lookup does it too for what is new;
  // done when a request arrives, no step has to pay for its prompt.
  void extend_hashes(Request& request) const;
  // Fetches into the processor's cache what taking `num_taken` free blocks, or publishing the last
  // full block among the request's first `num_tokens` tokens, will touch: many of either in a row
  // otherwise wait for memory one after the other. Changes nothing but the request's hashes.
  void prefetch_free(int num_taken) const;
  void prefetch_publish(Request& request, int num_tokens) const;
  // Longest cached run at the request's start, at most `max_tokens` long. A block published since
  // the last commit can be adopted whole, but nothing is copied from it: it is not computed yet.
  // Extends request.block_hashes.
  PrefixMatch find_cached_prefix(Request& request, int max_tokens) const;
  // Free blocks that `num_tokens` in all would take, the adopted ones that are free included.
  int blocks_needed(const Request& request, int num_tokens, std::span<const BlockId> adopted) const;
  // Makes the table cover the request's first `num_tokens` tokens, the `adopted` blocks first
  // (first allocation only). The contents of a partial match are the caller's to copy. False,
  // changing nothing, when the pool is too small.
  [[nodiscard]] bool allocate_slots(const Request& request, int num_tokens,
                                    const PrefixMatch& adopted = {});
  // Makes the full blocks among the first `num_tokens` tokens findable, even before they are
  // computed: a step writes all keys and values of a layer before it reads any.
  void publish(Request& request, int num_tokens);
  // Makes what stands in a block that is not full findable, where the index takes that. For a
  // request about to be freed, with `num_tokens` computed.
  void publish_tail(Request& request, int num_tokens);
  void commit_published();
  void withdraw_published();                   // all
  void withdraw_published(RequestId request);  // those of one request
  // Whether another request adopted a block `request` published and did not commit yet.
  bool fresh_blocks_shared(RequestId request) const;

  // Drops all references of `request`, last block first, so that of the cached ones the tail is
  // reused before the prefix. Unhashed blocks are reused before any cached one.
  void free(RequestId request);
  // Releases the blocks past `num_tokens` and forgets what they held.
  void trim(RequestId request, int num_tokens);
  // Forgets all cached contents, those of blocks in use too. Requests that hold blocks publish no
  // more until they are freed, since their later blocks depend on the forgotten ones.
  void reset_prefix_cache();

  // The pool equation, and that tables, counts, queue and index agree; aborts otherwise.
  void check_integrity() const;

 private:
  struct Block {
    std::int32_t ref_count = 0;
    RequestId owner = kNoRequest;
    std::optional<BlockHash> hash;  // set while the index knows the block
    std::int32_t num_tokens = 0;    // it is known with
    bool fresh = false;             // published since the last commit
  };
  struct Table {
    std::vector<BlockId> blocks;
    int num_published = 0;  // blocks already offered to the index
    bool may_publish = true;
  };
  struct Fresh {
    BlockId block;
    RequestId request;
    int table_idx;
  };

  Block& at(BlockId block) { return blocks_[static_cast<std::size_t>(index(block))]; }
  const Block& at(BlockId block) const { return blocks_[static_cast<std::size_t>(index(block))]; }
  PrefixKey key_of(const Request& request) const;
  BlockId take_free(RequestId request);
  void prefetch(std::span<const BlockId> blocks) const;
  void adopt(BlockId block, RequestId request);
  void drop_reference(BlockId block, RequestId request);
  void unindex(BlockId block);
  void withdraw(const Fresh& fresh);
  void log(BlockEventKind kind, BlockId block, RequestId request,
           const std::optional<BlockHash>& hash = std::nullopt);

  const int block_size_;
  LargeVector<Block> blocks_;
  FreeQueue free_;  // free-empty blocks
  std::unique_ptr<PrefixIndex> index_;
  std::unordered_map<RequestId, Table> tables_;
  std::vector<Fresh> fresh_;    // in order of publication
  bool fresh_adopted_ = false;  // one of them, by whomever
  std::int64_t num_evictions_ = 0, num_evicted_tokens_ = 0;
  std::vector<BlockEvent>* events_ = nullptr;
};

}  // namespace quire
