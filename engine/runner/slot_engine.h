#pragma once

#include <deque>
#include <vector>

#include "engine/core/request.h"
#include "engine/core/runner.h"

namespace quire {

// Continuous batching over fixed rows, as engines worked before paged caches: a request owns a
// whole row of KV slots for its life, each prompt chunk is a forward of its own, all decodes share
// one, and nothing is reused. `quire bench core` measures the engine core against it on the same
// kernels.
class SlotEngine {
 public:
  // The runner's pool must hold num_slots * slot_tokens tokens; slot_tokens is a multiple of
  // block_size.
  SlotEngine(Runner& runner, int num_slots, int slot_tokens, int prefill_chunk, int block_size);

  void add_request(Request request);  // prompt + max_tokens must fit in a slot
  // Admits into free slots, runs one chunk of every unfinished prompt, then one token of every
  // decode.
  void step();
  bool has_unfinished() const { return num_finished_ < requests_.size(); }
  const std::deque<Request>& requests() const { return requests_; }  // in order of arrival

 private:
  struct Slot {
    Request* request = nullptr;
    std::vector<BlockId> blocks;
  };
  void admit();
  void prefill();
  void decode();
  void release_finished();

  Runner& runner_;
  int slot_tokens_, prefill_chunk_, block_size_;
  std::vector<Slot> slots_;
  std::deque<Request> requests_;  // stable addresses
  std::size_t next_waiting_ = 0, num_finished_ = 0;
};

}  // namespace quire
