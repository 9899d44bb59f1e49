#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/ids.h"
#include "engine/core/request.h"

namespace quire {

// All of a step's scheduled tokens, concatenated without padding between requests.
// Padding rows (pad_to) come last: one dummy token each, slot -1, length 0.
struct Batch {
  std::vector<TokenId> input_ids;       // [num_tokens]
  std::vector<std::int32_t> positions;  // [num_tokens]
  std::vector<std::int64_t>
      slot_mapping;  // [num_tokens] block * block_size + offset; -1 = padding row
  std::vector<std::int32_t> query_start_loc;  // [num_reqs + 1] prefix sums of n
  std::vector<std::int32_t> seq_lens;         // [num_reqs] num_computed_tokens + n
  std::vector<std::int32_t> block_table;      // [num_reqs, max_blocks], unused entries 0
  int max_blocks = 1;
  std::vector<std::int32_t> logits_indices;  // [num_samples] rows that are sampled
  std::vector<std::int32_t> sample_counts;   // [num_reqs] 0 mid-prompt, 1, or 1 + drafts
  std::vector<RequestId> request_ids;        // [num_reqs], kNoRequest for padding rows
  int block_size = 0;

  int num_tokens() const { return static_cast<int>(input_ids.size()); }
  int num_reqs() const { return static_cast<int>(seq_lens.size()); }
};

struct BatchEntry {
  const Request* request = nullptr;
  int num_tokens = 0;                    // n >= 1
  std::span<const BlockId> block_table;  // covers num_computed_tokens + n
};

// Lays out the entries as one batch. `pad_to` > entries.size() appends padding rows up to that many
// requests.
Batch build_batch(std::span<const BatchEntry> entries, int block_size, int pad_to = 0);

}  // namespace quire
