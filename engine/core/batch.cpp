#include "engine/core/batch.h"

#include <algorithm>

#include "engine/core/mutation.h"
#include "kernels/check.h"

namespace quire {
namespace {

TokenId token_at(const Request& request, int position) {
  return position < request.num_tokens() ? request.token_ids[position]
                                         : request.spec_token_ids[position - request.num_tokens()];
}

void append_entry(Batch& batch, const BatchEntry& entry) {
  const Request& request = *entry.request;
  const int begin = request.num_computed_tokens, n = entry.num_tokens, end = begin + n;
  QUIRE_CHECK(n >= 1 && end <= request.num_tokens_with_spec(), index(request.id), begin, n);
  const auto size = static_cast<std::int64_t>(batch.block_size);
  QUIRE_CHECK(end <= size * static_cast<std::int64_t>(entry.block_table.size()), index(request.id),
              end, entry.block_table.size());
  for (int p = begin; p < end; ++p) {
    batch.input_ids.push_back(token_at(request, p));
    batch.positions.push_back(p);
    batch.slot_mapping.push_back(index(entry.block_table[p / size]) * size + p % size);
  }
  if (mutated(Mutation::kSlotOffByOne)) ++batch.slot_mapping.back();
  batch.query_start_loc.push_back(batch.num_tokens());
  batch.seq_lens.push_back(end);
  batch.request_ids.push_back(request.id);
  // Rows from the last real token on are sampled; the others predict tokens already known.
  const int k = std::min(n, std::max(0, end - (request.num_tokens() - 1)));
  for (int row = batch.num_tokens() - k; row < batch.num_tokens(); ++row)
    batch.logits_indices.push_back(row);
  batch.sample_counts.push_back(k);
}

void append_padding_row(Batch& batch) {
  batch.input_ids.push_back(0);
  batch.positions.push_back(0);
  batch.slot_mapping.push_back(-1);
  batch.query_start_loc.push_back(batch.num_tokens());
  batch.seq_lens.push_back(0);
  batch.request_ids.push_back(kNoRequest);
  batch.sample_counts.push_back(0);
}

}  // namespace

Batch build_batch(std::span<const BatchEntry> entries, int block_size, int pad_to) {
  Batch batch;
  batch.block_size = block_size;
  batch.query_start_loc.push_back(0);
  for (const BatchEntry& entry : entries) {
    append_entry(batch, entry);
    batch.max_blocks = std::max(batch.max_blocks, static_cast<int>(entry.block_table.size()));
  }
  while (batch.num_reqs() < pad_to) append_padding_row(batch);
  batch.block_table.assign(static_cast<std::size_t>(batch.num_reqs()) * batch.max_blocks, 0);
  for (std::size_t r = 0; r < entries.size(); ++r)
    std::ranges::transform(entries[r].block_table, batch.block_table.begin() + r * batch.max_blocks,
                           [](BlockId block) { return index(block); });
  return batch;
}

}  // namespace quire
