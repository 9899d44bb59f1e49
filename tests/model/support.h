#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/model/builtin_tiny.h"
#include "engine/model/flat_model.h"

namespace quire::test {

// A model with what it points into, in order of destruction.
struct TestModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<FlatModel> model;
};

inline TestModel make_tiny(std::unique_ptr<Backend> backend) {
  TestModel test{std::move(backend), make_builtin_tiny_weights(), nullptr};
  const ModelConfig config = builtin_tiny_config();
  const auto tensors = locate_tensors(config, *test.source, hf_tensor_names());
  test.model = make_flat_model(config, tensors.value(), *test.backend, {}).value();
  return test;
}

// Backends by name: "reference", "cpu" (BF16 KV) and "cpu f32" (float32 KV). Steps of a tiny model
// are quickest on one thread.
inline std::unique_ptr<Backend> make_backend(const std::string& name, int num_threads = 0) {
  if (name == "reference") return make_reference_backend();
  BackendOptions options;
  options.num_threads = num_threads;
  if (name == "cpu f32") options.kv_dtype = KvDType::kF32;
  std::string error;
  auto backend = make_cpu_backend(options, error);
  QUIRE_CHECK(backend != nullptr, error);
  return backend;
}

// Logits of `rows` of one prompt run at once in a poisoned pool whose blocks are used back to
// front.
inline std::vector<float> prompt_logits(FlatModel& model, const std::vector<std::int32_t>& prompt,
                                        const std::vector<std::int32_t>& rows, int block_size) {
  const int n = static_cast<int>(prompt.size());
  const int num_blocks = (n + block_size - 1) / block_size;
  const auto pool = model.backend().allocate_kv(model.config().kv_spec(), num_blocks, block_size);
  pool->poison();
  std::vector<std::int32_t> table(static_cast<std::size_t>(num_blocks));
  std::iota(table.rbegin(), table.rend(), 0);
  std::vector<std::int32_t> positions(prompt.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<std::int64_t> slot_mapping;
  for (const int p : positions)
    slot_mapping.push_back(
        static_cast<std::int64_t>(table[static_cast<std::size_t>(p / block_size)]) * block_size +
        p % block_size);
  const std::int32_t starts[] = {0, n};
  const BatchView batch{.num_tokens = n,
                        .num_reqs = 1,
                        .input_ids = prompt.data(),
                        .positions = positions.data(),
                        .slot_mapping = slot_mapping.data(),
                        .query_start_loc = starts,
                        .seq_lens = &starts[1],
                        .block_table = table.data(),
                        .max_blocks = num_blocks};
  std::vector<float> logits(rows.size() * static_cast<std::size_t>(model.config().vocab_size));
  const std::atomic<bool> cancel{false};
  model.reserve(n);
  model.forward_logits(batch, *pool, rows, logits, cancel);
  return logits;
}

}  // namespace quire::test
