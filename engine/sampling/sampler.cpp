#include "engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

// The largest of at most kTile logits; NaN is never larger. Sixteen maxima side by side, which
// compilers turn into vector instructions.
constexpr std::size_t kTile = 256, kLanes = 16;
float largest_of_tile(const float* logits, std::size_t count) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kExcluded);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  for (; i < count; ++i) lanes[0] = std::max(lanes[0], logits[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

// A row of logits with the maximum of every tile, so that what is not among the largest is mostly
// passed over a tile at a time.
class Row {
 public:
  explicit Row(std::span<const float> logits) : logits_(logits) {
    for (std::size_t begin = 0; begin < logits.size(); begin += kTile)
      maxima_.push_back(largest_of_tile(&logits[begin], tile(begin).size()));
    const auto best = std::ranges::max_element(maxima_);
    maximum_ = *best;
    const auto begin = static_cast<std::size_t>(best - maxima_.begin()) * kTile;
    const std::span<const float> values = tile(begin);
    argmax_ = static_cast<TokenId>(begin) +
              static_cast<TokenId>(std::ranges::find(values, maximum_) - values.begin());
  }

  float maximum() const { return maximum_; }
  TokenId argmax() const { return argmax_; }  // the lowest id of the maximum

  // The `k` largest logits and perhaps more, all of them when k is 0; ids ascending. Never one that
  // is excluded or NaN.
  std::vector<Candidate> at_least(std::size_t k) const {
    // That many tiles reach the k-th largest of the maxima, so no smaller logit is among the k.
    float threshold = kExcluded;
    if (k > 0 && k <= maxima_.size()) {
      std::vector<float> maxima = maxima_;
      std::ranges::nth_element(maxima, maxima.begin() + static_cast<std::ptrdiff_t>(k - 1),
                               std::greater());
      threshold = maxima[k - 1];
    }
    std::vector<Candidate> found;
    if (threshold == kExcluded) found.reserve(logits_.size());
    for (std::size_t t = 0; t < maxima_.size(); ++t) {
      if (maxima_[t] < threshold) continue;
      const std::size_t begin = t * kTile, end = begin + tile(begin).size();
      for (std::size_t i = begin; i < end; i += kLanes)
        add_at_least(threshold, i, std::min(i + kLanes, end), found);
    }
    return found;
  }

 private:
  // Of [begin, end), at most kLanes logits, of which mostly none qualifies.
  void add_at_least(float threshold, std::size_t begin, std::size_t end,
                    std::vector<Candidate>& found) const {
    if (end - begin == kLanes) {
      int any = 0;
      for (std::size_t lane = 0; lane < kLanes; ++lane) any |= logits_[begin + lane] >= threshold;
      if (any == 0) return;
    }
    for (std::size_t i = begin; i < end; ++i)
      if (logits_[i] >= threshold && logits_[i] != kExcluded)
        found.push_back({logits_[i], static_cast<TokenId>(i)});
  }
  std::span<const float> tile(std::size_t begin) const {
    return logits_.subspan(begin, std::min(kTile, logits_.size() - begin));
  }

  std::span<const float> logits_;
  std::vector<float> maxima_;
  float maximum_ = kExcluded;
  TokenId argmax_ = 0;
};

float largest(std::span<const float> logits) {
  return *std::ranges::max_element(logits);
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
  kept.log_denominator = log_sum_exp(logits, largest(logits));
  for (const Candidate& candidate : likeliest(logits, static_cast<std::size_t>(count)))
    out.top.push_back({candidate.token, kept.of(candidate.token)});
  return kept;
}

void exclude_banned(std::span<float> logits, std::span<const TokenId> banned) {
  std::vector<float> before;
  for (const TokenId token : banned) before.push_back(logits[token]);
  for (const TokenId token : banned) logits[token] = kExcluded;
  if (banned.empty() || largest(logits) != kExcluded) return;
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
std::vector<Candidate> select(const Row& logits, const SamplingParams& params,
                              const Weights& weight) {
  const auto k = static_cast<std::size_t>(params.top_k);
  std::vector<Candidate> kept = logits.at_least(k);
  if (k > 0) {
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(std::min(k, kept.size()));
    std::partial_sort(kept.begin(), end, kept.end(), likelier);
    kept.erase(end, kept.end());
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

bool edits_logits(const SamplingRow& row) {
  return row.params->logprobs || row.params->has_penalties() || !row.banned.empty();
}

bool draws(const SamplingParams& params) {
  return !params.greedy() && params.top_k != 1;
}

[[noreturn]] void fail_without_logits() {
  throw DeviceError("The model produced no usable logits; reload it.");
}

TokenId choose(const Row& logits, const SamplingRow& row) {
  const SamplingParams& params = *row.params;
  if (!draws(params)) return logits.argmax();
  const Weights weight(logits.maximum(), params.temperature);
  const auto candidates = select(logits, params, weight);
  return draw(candidates, weight,
              philox_uniform(*params.seed, static_cast<std::uint64_t>(row.output_index), 0));
}

}  // namespace

SampledRow sample_row(std::span<const float> logits, const SamplingRow& row) {
  const SamplingParams& params = *row.params;
  QUIRE_CHECK(!logits.empty() && (params.greedy() || params.seed), logits.size());
  const Row given(logits);
  if (given.maximum() == kExcluded) fail_without_logits();
  SampledRow out;
  if (!edits_logits(row) && std::isfinite(given.maximum())) {
    out.token = choose(given, row);
    return out;
  }
  std::vector<float> edited(logits.begin(), logits.end());
  make_comparable(edited);
  Logprobs logprobs;
  if (params.logprobs) logprobs = keep_logprobs(edited, *params.logprobs, out);
  exclude_banned(edited, row.banned);
  if (params.has_penalties()) apply_penalties(edited, row);
  out.token = choose(Row(edited), row);
  if (params.logprobs) out.logprob = logprobs.of(out.token);
  return out;
}

bool takes_largest(const SamplingRow& row) {
  return !edits_logits(row) && !draws(*row.params);
}

SampledRow sample_largest(const LargestLogit& largest) {
  if (largest.id < 0) fail_without_logits();
  return {largest.id, 0, {}};
}

}  // namespace quire
