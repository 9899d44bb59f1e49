#include "engine/runner/bench_model_sizes.h"

#include <algorithm>
#include <string>

#include "engine/core/engine_config.h"

namespace quire {
namespace {

constexpr int kMaxRounds = 1000;

int largest(const std::vector<int>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

int blocks_for(int tokens) {
  return (tokens + kBenchBlockSize - 1) / kBenchBlockSize;
}

Error invalid(const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument, sentence);
}

Status check_list(const char* what, const std::vector<int>& values, int least, int most) {
  if (values.size() > kMaxBenchListed)
    return invalid("A bench takes at most " + std::to_string(kMaxBenchListed) + " " + what + ".");
  for (const int value : values)
    if (value < least || value > most)
      return invalid(std::string(what) + " must be between " + std::to_string(least) + " and " +
                     std::to_string(most) + ", not " + std::to_string(value) + ".");
  return Ok{};
}

}  // namespace

int bench_lead_tokens(int streams) {
  const EngineConfig config;
  return 2 + streams * kBenchBlockSize / config.prefill_chunk.contended;
}

ModelBenchNeeds model_bench_needs(const ModelBenchOptions& o) {
  ModelBenchNeeds needs{kBenchWarmUpPrompt + kBenchWarmUpOutput, 0, 1};
  const auto add = [&](int streams, int context, int output) {
    needs.context = std::max(needs.context, context + output);
    needs.streams = std::max(needs.streams, streams);
    // Twice the output, so that a round's output does not push out what the next one looks for.
    needs.blocks =
        std::max(needs.blocks, streams * (blocks_for(context) + 2 * (blocks_for(output) + 1)));
  };
  add(1, kBenchWarmUpPrompt, kBenchWarmUpOutput);
  if (!o.prompts.empty()) add(1, largest(o.prompts), 1);
  if (!o.depths.empty())
    add(1, std::max(1, largest(o.depths)), o.decode_tokens + bench_lead_tokens(1));
  if (const int streams = largest(o.parallel); streams > 0)
    add(streams, std::max(1, o.parallel_depth), o.decode_tokens + bench_lead_tokens(streams));
  if (o.shared_prefix > 0)
    add(largest(o.shared_requests), o.shared_prefix + kSharedOwnTokens, kSharedOutputTokens);
  return needs;
}

Status check_model_bench(const ModelBenchOptions& o, int context_length) {
  QUIRE_RETURN_IF_ERROR(check_list("prompt lengths", o.prompts, 1, context_length - 1));
  QUIRE_RETURN_IF_ERROR(check_list("depths", o.depths, 0, context_length - 1));
  QUIRE_RETURN_IF_ERROR(check_list("stream counts", o.parallel, 1, kMaxBenchStreams));
  QUIRE_RETURN_IF_ERROR(check_list("request counts", o.shared_requests, 1, kMaxBenchStreams));
  if (o.rounds < 1 || o.rounds > kMaxRounds)
    return invalid("A bench needs between 1 and " + std::to_string(kMaxRounds) + " rounds.");
  if (o.parallel_depth < 0 || o.shared_prefix < 0 || o.decode_tokens < 1)
    return invalid("A bench needs at least one decoded token, and no length below zero.");
  for (const int length : {o.parallel_depth, o.shared_prefix, o.decode_tokens})
    if (length >= context_length)
      return invalid(std::to_string(length) + " tokens do not fit the model's context of " +
                     std::to_string(context_length) + ".");
  if (const int most = model_bench_needs(o).context; most > context_length)
    return invalid("The bench needs " + std::to_string(most) +
                   " tokens in one sequence and the model's context is " +
                   std::to_string(context_length) + ".");
  return Ok{};
}

ModelBenchOptions default_model_bench(int context_length) {
  ModelBenchOptions o;
  std::erase_if(o.prompts, [&](int tokens) { return tokens >= context_length; });
  const int output = o.decode_tokens + bench_lead_tokens(largest(o.parallel));
  std::erase_if(o.depths, [&](int depth) { return depth + output > context_length; });
  o.parallel_depth = std::min(o.parallel_depth, std::max(0, context_length - output));
  return o;
}

Result<std::vector<int>> parse_bench_list(std::string_view text, int least, int most) {
  std::vector<int> values;
  if (text == "none") return values;
  const Error refusal =
      invalid("\"" + std::string(text.substr(0, 64)) + "\" is neither \"none\" nor up to " +
              std::to_string(kMaxBenchListed) + " whole numbers from " + std::to_string(least) +
              " to " + std::to_string(most) + " with commas between.");
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view digits = text.substr(0, comma);
    if (digits.empty() || digits.size() > 9 || values.size() == kMaxBenchListed) return refusal;
    int value = 0;
    for (const char digit : digits) {
      if (digit < '0' || digit > '9') return refusal;
      value = value * 10 + (digit - '0');
    }
    if (value < least || value > most) return refusal;
    values.push_back(value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace quire
