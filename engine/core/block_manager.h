#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/core/free_queue.h"
#include "engine/core/prefix_index.h"
#include "engine/core/request.h"
#include "engine/core/step_record.h"

namespace quire {

// Owns the KV blocks: reference counts, the order in which free ones are reused, and which prefix
// each holds. A block is exactly one of free-empty (no hash), free-cached (contents still findable
// by hash, given up only when reused) and referenced. The scratch block behind the pool is not
// managed here. Only one block carries a given hash; a later duplicate stays private and unhashed.
// Hashes published since the last `commit_published` can be withdrawn. Engine thread only.
class BlockManager {
 public:
  BlockManager(int num_blocks, int block_size, bool enable_prefix_caching,
               std::unique_ptr<PrefixIndex> prefix_index = make_hash_chain_index());

  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  int block_size() const { return block_size_; }
  bool prefix_caching() const { return enable_prefix_caching_; }
  int num_free() const { return free_.size(); }
  int num_cached_free() const { return num_cached_free_; }
  std::int64_t num_evictions() const { return num_evictions_; }
  int blocks_for(int num_tokens) const { return (num_tokens + block_size_ - 1) / block_size_; }
  std::span<const BlockId> table(RequestId request) const;  // logical order; empty if none
  BlockView view(BlockId block) const;

  // Receives every event from now on; null: none are made.
  void set_event_log(std::vector<BlockEvent>* log) { events_ = log; }

  // Longest cached run of full blocks at the request's start, never the block that holds its last
  // token: that one must be computed, for its logits. Extends request.block_hashes.
  std::vector<BlockId> find_cached_prefix(Request& request) const;
  // Free blocks that `num_tokens` in all would take, the adopted ones that are free included.
  int blocks_needed(const Request& request, int num_tokens, std::span<const BlockId> adopted) const;
  // Makes room for `num_new_tokens` behind the computed tokens and the `adopted` blocks (first
  // allocation only). False, changing nothing, when the pool is too small.
  [[nodiscard]] bool allocate_slots(const Request& request, int num_new_tokens,
                                    std::span<const BlockId> adopted = {});
  // Makes the full blocks among the first `num_tokens` tokens findable, even before they are
  // computed: a step writes all keys and values of a layer before it reads any.
  void publish(Request& request, int num_tokens);
  void commit_published() { fresh_.clear(); }
  void withdraw_published();                   // all
  void withdraw_published(RequestId request);  // those of one request
  // Whether another request adopted a block `request` published and did not commit yet.
  bool fresh_blocks_shared(RequestId request) const;

  // Drops all references of `request`, last block first, so that of the cached ones the tail is
  // reused before the prefix. Unhashed blocks are reused before any cached one.
  void free(RequestId request);
  // Releases the blocks past `num_tokens` and forgets what they held.
  void trim(RequestId request, int num_tokens);
  // Forgets all cached contents. Requests that hold blocks publish no more until they are freed,
  // since their later blocks depend on the forgotten ones.
  void reset_prefix_cache();

  // The pool equation, and that tables, counts, queue and index agree; aborts otherwise.
  void check_integrity() const;

 private:
  struct Block {
    std::int32_t ref_count = 0;
    RequestId owner = kNoRequest;
    std::optional<BlockHash> hash;
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
  void extend_hashes(Request& request) const;
  BlockId take_free(RequestId request);
  void adopt(BlockId block, RequestId request);
  void drop_reference(BlockId block, RequestId request);
  void drop_hash(BlockId block);
  void withdraw(const Fresh& fresh);
  void log(BlockEventKind kind, BlockId block, RequestId request,
           const std::optional<BlockHash>& hash = std::nullopt);

  const int block_size_;
  const bool enable_prefix_caching_;
  std::vector<Block> blocks_;
  FreeQueue free_;
  std::unique_ptr<PrefixIndex> index_;
  std::unordered_map<RequestId, Table> tables_;
  std::vector<Fresh> fresh_;  // in order of publication
  int num_cached_free_ = 0;
  std::int64_t num_evictions_ = 0;
  std::vector<BlockEvent>* events_ = nullptr;
};

}  // namespace quire
