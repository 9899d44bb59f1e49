#include "engine/runner/direct_step.h"

#include <atomic>
#include <vector>

#include "kernels/check.h"

namespace quire {

void run_direct_step(Runner& runner, std::span<const DirectEntry> entries, int block_size) {
  std::vector<BatchEntry> batch_entries;
  for (const DirectEntry& entry : entries)
    batch_entries.push_back({entry.request, entry.num_tokens, entry.block_table});
  const Batch batch = build_batch(batch_entries, block_size);

  std::vector<SamplingRow> rows;
  std::vector<Request*> sampled;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Request* request = entries[i].request;
    QUIRE_CHECK(batch.sample_counts[i] <= 1, batch.sample_counts[i]);
    if (batch.sample_counts[i] == 0) continue;
    sampled.push_back(request);
    rows.push_back({.request = request->id,
                    .params = &request->params,
                    .output_index = request->num_output_tokens(),
                    .token_ids = request->token_ids,
                    .num_prompt_tokens = request->num_prompt_tokens,
                    .banned = {}});
  }
  const std::atomic<bool> never{false};
  const StepResult result = runner.collect(runner.launch(batch, rows, never));
  for (const DirectEntry& entry : entries) entry.request->num_computed_tokens += entry.num_tokens;
  for (std::size_t i = 0; i < sampled.size(); ++i)
    sampled[i]->token_ids.push_back(result.rows[i].token);
}

}  // namespace quire
