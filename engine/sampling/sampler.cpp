#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/sampling/philox.h"
#include "kernels/check.h"

namespace quire {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

struct Candidate {
  float logit;
  TokenId token;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

void make_comparable(std::span<float> logits) {
  for (float& logit : logits) {
    if (std::isnan(logit)) logit = kExcluded;
    logit = std::min(logit, std::numeric_limits<float>::max());
  }
}

TokenId largest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

// log of the softmax's denominator.
double log_sum_exp(std::span<const float> logits, float maximum) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - maximum);
  return maximum + std::log(sum);
}

std::vector<Candidate> likeliest(std::span<const float> logits, std::size_t count) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), [&](TokenId a, TokenId b) {
    return likelier({logits[a], a}, {logits[b], b});
  });
  std::vector<Candidate> top;
  for (std::size_t i = 0; i < count; ++i) top.push_back({logits[ids[i]], ids[i]});
  return top;
}

// What the request sees of the logits as they came; the chosen token's comes once it is known.
struct Logprobs {
  std::vector<float> logits;
  double log_denominator = 0;
  float of(TokenId token) const { return static_cast<float>(logits[token] - log_denominator); }
};

Logprobs keep_logprobs(std::span<const float> logits, int count, SampledRow& out) {
  Logprobs kept;
  kept.logits.assign(logits.begin(), logits.end());
  kept.log_denominator = log_sum_exp(logits, logits[largest(logits)]);
  for (const Candidate& candidate : likeliest(logits, static_cast<std::size_t>(count)))
    out.top.push_back({candidate.token, kept.of(candidate.token)});
  return kept;
}

void exclude_banned(std::span<float> logits, std::span<const TokenId> banned) {
  std::vector<float> before;
  for (const TokenId token : banned) before.push_back(logits[token]);
  for (const TokenId token : banned) logits[token] = kExcluded;
  if (banned.empty() || logits[largest(logits)] != kExcluded) return;
  // Last to first, so that an id listed twice gets its first value back.
  for (std::size_t i = banned.size(); i-- > 0;) logits[banned[i]] = before[i];
}

// Calls apply(token, count) once for each distinct token.
template <typename Apply>
void for_each_distinct(std::span<const TokenId> tokens, Apply apply) {
  std::vector<TokenId> sorted(tokens.begin(), tokens.end());
  std::ranges::sort(sorted);
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin);
    apply(*begin, static_cast<int>(end - begin));
    begin = end;
  }
}

// A penalty never excludes a token, however far it moves it.
float penalized(float logit, float result) {
  constexpr float kMost = std::numeric_limits<float>::max();
  return logit == kExcluded ? kExcluded : std::clamp(result, -kMost, kMost);
}

void apply_penalties(std::span<float> logits, const SamplingRow& row) {
  const SamplingParams& params = *row.params;
  if (params.repetition_penalty != 1.0f) {
    const float penalty = params.repetition_penalty;
    for_each_distinct(row.token_ids, [&](TokenId token, int) {
      float& logit = logits[token];
      logit = penalized(logit, logit > 0 ? logit / penalty : logit * penalty);
    });
  }
  if (params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f) {
    for_each_distinct(row.token_ids.subspan(row.num_prompt_tokens), [&](TokenId token, int count) {
      const float penalty =
          params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
      logits[token] = penalized(logits[token], logits[token] - penalty);
    });
  }
}

// Relative probability of a logit at the request's temperature; the largest has 1.
class Weights {
 public:
  Weights(float maximum, float temperature)
      : maximum_(maximum), inverse_temperature_(1.0 / temperature) {}
  double operator()(float logit) const {
    if (logit == maximum_) return 1.0;
    return std::exp((static_cast<double>(logit) - maximum_) * inverse_temperature_);
  }

 private:
  double maximum_, inverse_temperature_;
};

// Sorts candidates from likeliest on, only as far as needed for their weights to reach `mass`;
// drops the rest.
void keep_mass(std::vector<Candidate>& candidates, const Weights& weight, double mass) {
  constexpr std::size_t kFirstSlice = 64;
  double reached = 0;
  std::size_t sorted = 0;
  for (std::size_t slice = kFirstSlice; sorted < candidates.size(); slice *= 4) {
    const std::size_t end = std::min(candidates.size(), sorted + slice);
    std::partial_sort(candidates.begin() + sorted, candidates.begin() + end, candidates.end(),
                      likelier);
    for (; sorted < end; ++sorted) {
      reached += weight(candidates[sorted].logit);
      if (reached < mass) continue;
      candidates.resize(sorted + 1);
      return;
    }
  }
}

// The tokens that may be drawn, in a fixed order.
std::vector<Candidate> select(std::span<const float> logits, const SamplingParams& params,
                              const Weights& weight) {
  std::vector<Candidate> kept;
  kept.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] != kExcluded) kept.push_back({logits[i], static_cast<TokenId>(i)});
  const auto k = static_cast<std::size_t>(params.top_k);
  if (k > 0 && k < kept.size()) {
    std::ranges::nth_element(kept, kept.begin() + (k - 1), likelier);
    kept.resize(k);
    std::ranges::sort(kept, likelier);
  }
  if (params.top_p < 1.0f) {
    double total = 0;
    for (const Candidate& candidate : kept) total += weight(candidate.logit);
    keep_mass(kept, weight, params.top_p * total);
  }
  if (params.min_p > 0.0f)
    std::erase_if(
        kept, [&](const Candidate& candidate) { return weight(candidate.logit) < params.min_p; });
  return kept;
}

TokenId draw(const std::vector<Candidate>& candidates, const Weights& weight, double uniform) {
  std::vector<double> cumulative;
  cumulative.reserve(candidates.size());
  double total = 0;
  for (const Candidate& candidate : candidates)
    cumulative.push_back(total += weight(candidate.logit));
  const auto it = std::ranges::upper_bound(cumulative, uniform * total);
  // Rounding may put the target on the total itself.
  const auto chosen = it == cumulative.end() ? candidates.size() - 1
                                             : static_cast<std::size_t>(it - cumulative.begin());
  return candidates[chosen].token;
}

TokenId choose(std::span<const float> logits, const SamplingRow& row) {
  const SamplingParams& params = *row.params;
  const TokenId best = largest(logits);
  if (params.greedy() || params.top_k == 1) return best;
  const Weights weight(logits[best], params.temperature);
  const auto candidates = select(logits, params, weight);
  return draw(candidates, weight,
              philox_uniform(*params.seed, static_cast<std::uint64_t>(row.output_index), 0));
}

}  // namespace

SampledRow sample_row(std::span<float> logits, const SamplingRow& row) {
  const SamplingParams& params = *row.params;
  QUIRE_CHECK(!logits.empty() && (params.greedy() || params.seed), logits.size());
  make_comparable(logits);
  if (logits[largest(logits)] == kExcluded)
    throw DeviceError("The model produced no usable logits; reload it.");
  SampledRow out;
  Logprobs logprobs;
  if (params.logprobs) logprobs = keep_logprobs(logits, *params.logprobs, out);
  exclude_banned(logits, row.banned);
  if (params.has_penalties()) apply_penalties(logits, row);
  out.token = choose(logits, row);
  if (params.logprobs) out.logprob = logprobs.of(out.token);
  return out;
}

}  // namespace quire
