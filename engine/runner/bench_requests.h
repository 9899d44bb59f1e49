#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/core/request.h"
#include "engine/runner/bench_random.h"

namespace quire {

inline std::vector<TokenId> random_tokens(BenchRandom& random, int count, int vocab_size) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (TokenId& id : ids) id = random.between(0, vocab_size - 1);
  return ids;
}

// Greedy, and as long as it may be.
inline std::unique_ptr<Request> greedy_request(std::int64_t id, std::vector<TokenId> prompt,
                                               int max_tokens) {
  SamplingParams params;
  params.temperature = 0;
  params.seed = 0;
  params.ignore_eos = true;
  params.max_tokens = max_tokens;
  return std::make_unique<Request>(RequestId{id}, std::move(prompt), params);
}

}  // namespace quire
