#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model/model.h"
#include "engine/result.h"

namespace quire {

// What `quire bench model` times. Everything goes through an EngineCore and a ModelRunner, greedy,
// with random prompts; a time is wall time and holds scheduling and sampling too.
enum class ModelBenchKind : std::uint8_t {
  // One prompt, from its arrival to its first token, with nothing in the cache.
  kPrefill,
  // The tokens of one stream whose context is already in the cache, as llama-bench's tg at a depth.
  kDecode,
  // The same of several streams that step together, each with a context of its own.
  kParallel,
  // Requests that arrive at once with prompts of which the beginning is common and new; to the last
  // token of all.
  kSharedPrefix,
};

struct ModelBenchOptions {
  std::vector<int> prompts = {128, 512, 2048};     // tokens
  std::vector<int> depths = {0, 256, 1024, 4096};  // tokens; 0 and 1 are the same
  std::vector<int> parallel = {1, 4, 16, 64};      // streams
  int parallel_depth = 256;                        // tokens in the cache of each of them
  int shared_prefix = 0;                           // common new tokens; 0 = not timed
  std::vector<int> shared_requests = {4};
  int decode_tokens = 64;  // timed, per stream
  int rounds = 5;
};

// Bounds of the lists.
inline constexpr std::size_t kMaxBenchListed = 16;
inline constexpr int kMaxBenchStreams = 1024;

// Of a request with a shared prefix.
inline constexpr int kSharedOwnTokens = 20, kSharedOutputTokens = 32;

// The timings of one size, for example of prompts of 512 tokens.
struct ModelBenchSeries {
  ModelBenchKind kind = ModelBenchKind::kPrefill;
  int size = 0;    // prompt tokens, depth, streams, requests
  int depth = 0;   // tokens in the cache of each stream when the timing begins
  int tokens = 0;  // of a round: computed prompt tokens (kPrefill), else output tokens
  int steps = 0;   // the engine ran in a round
  // Prompt tokens of all requests of a round that came from the prefix cache, and all there were.
  int cached_tokens = 0, prompt_tokens = 0;
  std::vector<double> seconds;      // one per round
  std::vector<double> cpu_seconds;  // the same, of all threads together
};

struct Spread {
  double median = 0, min = 0, max = 0;
};
Spread spread(std::vector<double> values);  // not empty
// Tokens per second, fastest round as max.
Spread rate(const ModelBenchSeries& series);
// Of the median round.
double seconds_per_step(const ModelBenchSeries& series);

// What a token of context adds to a step of one stream: the slope of a line through the medians of
// kDecode's series, least squares. Empty when these have fewer than two depths.
std::optional<double> seconds_per_context_token(const std::vector<ModelBenchSeries>& all);

// May hold a round back, or end the bench by returning false (kCancelled).
using BeforeRound = std::function<bool()>;
// The newest round is the last of `series.seconds`.
using AfterRound = std::function<void(const ModelBenchSeries& series)>;

// Times each size `rounds` times in a row, after a short warm-up. A context is computed once, not
// every round: later rounds find it in the prefix cache. kInvalidArgument, with a sentence, for
// values out of bounds or beyond the model's context. Either callback may be empty.
Result<std::vector<ModelBenchSeries>> run_model_bench(FlatModel& model,
                                                      const ModelBenchOptions& options,
                                                      const BeforeRound& before = {},
                                                      const AfterRound& after = {});

// The default sizes, without those a model of this context has no room for.
ModelBenchOptions default_model_bench(int context_length);

// "128,512": at most kMaxBenchListed whole numbers in [least, most]; "none" is empty.
Result<std::vector<int>> parse_bench_list(std::string_view text, int least, int most);

}  // namespace quire
