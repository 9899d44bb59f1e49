#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

struct PerplexityOptions {
  int context = 512;  // tokens of a chunk
  int chunks = 0;     // the first so many; 0 = all that are whole
  // Put in place of every chunk's first token, as a model that was trained with one expects;
  // -1 = none.
  TokenId bos = -1;
};

struct Perplexity {
  int chunks = 0;
  std::int64_t scored_tokens = 0;
  double mean_nll = 0;        // negative log-likelihood of a token, natural logarithm
  double perplexity = 0;      // exp(mean_nll)
  double standard_error = 0;  // of `perplexity`, as if tokens were independent
};

// Of a text, as llama.cpp's tool measures it: the text is cut into chunks of `context` tokens that
// know nothing of each other, and tokens context / 2 + 1 and later of each are scored, so that
// every scored token has at least half a chunk before it. The rest of the text is not used.
// `after_chunk` (may be empty) sees what is known so far.
// kInvalidArgument: no whole chunk, or a context below 4 or beyond the model's.
Result<Perplexity> measure_perplexity(
    FlatModel& model, std::span<const TokenId> text, const PerplexityOptions& options,
    const std::function<void(const Perplexity&)>& after_chunk = {});

}  // namespace quire
