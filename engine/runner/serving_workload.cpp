#include "engine/runner/serving_workload.h"

#include <algorithm>

#include "engine/runner/bench_requests.h"

namespace quire {
namespace {

class Workload {
 public:
  explicit Workload(const WorkloadOptions& options) : options_(options), random_(options.seed) {
    double sum = 0;
    for (int i = 0; i < options.num_prefixes; ++i) {
      prefixes_.push_back(tokens(length(options.prefix_median, options.prefix_max)));
      popularity_.push_back(sum += 1.0 / (i + 1));
    }
  }

  std::optional<TimedRequest> next() {
    if (made_ == options_.num_requests) return std::nullopt;
    clock_s_ += random_.exponential(options_.rate);
    std::vector<TokenId> prompt;
    if (!prefixes_.empty() && random_.uniform() < options_.shared_part) prompt = shared_prefix();
    const std::vector<TokenId> own = tokens(length(options_.own_median, options_.own_max));
    prompt.insert(prompt.end(), own.begin(), own.end());
    const auto most = static_cast<std::size_t>(options_.max_tokens_in_all - 1);
    if (prompt.size() > most) prompt.resize(most);
    SamplingParams params;
    params.ignore_eos = true;
    params.seed = 0;
    params.max_tokens = std::min(length(options_.output_median, options_.output_max),
                                 options_.max_tokens_in_all - static_cast<int>(prompt.size()));
    auto request = std::make_unique<Request>(RequestId{made_++}, std::move(prompt), params);
    request->priority = random_.between(0, options_.num_priorities - 1);
    return TimedRequest{clock_s_, std::move(request)};
  }

 private:
  int length(int median, int most) {
    return static_cast<int>(
        std::clamp(random_.log_normal(median, options_.spread), 1.0, static_cast<double>(most)));
  }
  std::vector<TokenId> tokens(int count) {
    return random_tokens(random_, count, options_.vocab_size);
  }
  const std::vector<TokenId>& shared_prefix() {
    const double draw = random_.uniform() * popularity_.back();
    const auto it = std::ranges::lower_bound(popularity_, draw);
    return prefixes_[static_cast<std::size_t>(it - popularity_.begin())];
  }

  const WorkloadOptions options_;
  BenchRandom random_;
  std::vector<std::vector<TokenId>> prefixes_;
  std::vector<double> popularity_;  // running sum of 1 / rank
  double clock_s_ = 0;
  int made_ = 0;
};

}  // namespace

Result<RequestSource> make_workload(const WorkloadOptions& o) {
  if (o.num_requests < 1 || !(o.rate > 0) || o.vocab_size < 1 || o.num_prefixes < 0 ||
      o.prefix_median < 1 || o.own_median < 1 || o.output_median < 1 || o.prefix_max < 1 ||
      o.own_max < 1 || o.output_max < 1 || o.num_priorities < 1 || o.max_tokens_in_all < 2)
    return make_error(ErrorCode::kInvalidArgument,
                      "A workload needs requests, a rate, a vocabulary and lengths above zero.");
  return RequestSource([workload = std::make_shared<Workload>(o)] { return workload->next(); });
}

}  // namespace quire
