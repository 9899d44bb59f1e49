#pragma once

#include <list>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/core/request.h"
#include "engine/core/step_record.h"
#include "kernels/check.h"

// A plain second account of what the engine says it does, kept from its records alone. It shares
// no code with the engine but the hash function. Anything that breaks a rule throws.
namespace quire::test {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Values>
void require(bool holds, const char* rule, const Values&... values) {
  if (!holds) throw Violation(std::string(rule) + " [" + check_values(values...) + "]");
}

struct ModelRequest {
  RequestId id = kNoRequest;
  std::vector<TokenId> tokens;  // prompt, then output
  std::vector<TokenId> answer;  // its whole output when it runs alone
  int num_prompt = 0, max_tokens = 0, priority = 0;
  std::string key, salt;

  RequestStatus status = RequestStatus::kWaiting;
  int computed = 0, peak = 0;
  int preemptions = 0, displaced = 0, overtaken = 0;
  bool outdated = false;  // holds tokens computed before a cache reset: may publish nothing
  std::vector<TokenId> drafts;
  std::vector<BlockId> table;
  std::vector<std::int32_t> host;  // blocks of the host pool
  std::vector<BlockHash> chain;    // the root's key, then one per full block

  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int num_output() const { return num_tokens() - num_prompt; }
  bool decoding() const { return num_output() > 0 && num_tokens() - computed == 1; }
  bool waits() const { return status != RequestStatus::kRunning; }
};

struct ModelBlock {
  int refs = 0;
  RequestId owner = kNoRequest;
  bool hashed = false;
  bool fresh = false;          // published in the present step
  BlockHash hash{}, parent{};  // while hashed: its key, and the key of what comes before it
  std::vector<TokenId> run;    // while hashed: the tokens it holds
};

// What the cache holds of a request's start. Between `least_partial` and `most_partial` tokens of a
// further block may be copied: equal unless the best block was published in this step.
struct ModelMatch {
  std::vector<BlockId> blocks;
  int least_partial = 0, most_partial = 0;
};

// The KV pool by the block events.
class PoolModel {
 public:
  PoolModel(int num_blocks, int block_size, PrefixIndexKind kind, bool caching);

  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  int num_free() const;
  int num_cached() const { return static_cast<int>(cached_.size()); }
  int num_hashed() const { return static_cast<int>(by_hash_.size()); }
  const ModelBlock& at(BlockId block) const;
  int blocks_for(int tokens) const { return (tokens + block_size_ - 1) / block_size_; }
  int num_private(const ModelRequest& request) const;
  bool whole_prefix_cached(ModelRequest& request, int position);

  // `request`: whom the event names, null if nobody. `forgets`: a reset gives up every hash.
  void apply(const BlockEvent& event, ModelRequest* request, bool forgets);
  ModelMatch match(ModelRequest& request, int max_tokens);
  void settle();  // the step is over
  // At the end of a step: counts, and that whatever is findable is computed and can be reached.
  void check(const std::map<RequestId, ModelRequest>& requests) const;

 private:
  ModelBlock& mutable_at(BlockId block);
  const BlockHash& chain(ModelRequest& request, int full_blocks);
  void alloc(const BlockEvent& event, ModelRequest& request);
  void adopt(const BlockEvent& event, ModelRequest& request);
  void publish(const BlockEvent& event, ModelRequest& request);
  void unhash(const BlockEvent& event, bool forgets);
  void give_back(const BlockEvent& event, ModelRequest& request);

  int block_size_;
  PrefixIndexKind kind_;
  bool caching_;
  std::vector<ModelBlock> blocks_;
  std::list<BlockId> cached_;  // free but findable, in the order they became so
  std::map<BlockHash, BlockId> by_hash_;
  std::map<BlockHash, std::string> meaning_;  // what each hash ever seen stands for
  int num_empty_;
  bool evicting_ = false;  // the last event gave a hash up
};

}  // namespace quire::test
