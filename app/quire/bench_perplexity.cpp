#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/quire/bench_commands.h"
#include "app/quire/commands.h"
#include "engine/formats/mapped_file.h"
#include "engine/runner/perplexity.h"

namespace quire {
namespace {

constexpr std::size_t kMaxTextBytes = 64 << 20;

struct PerplexityFlags {
  BenchModelFlags bench;
  std::string text;
  PerplexityOptions options;
};

Result<Perplexity> perplexity_of(const BareModel& model, const PerplexityFlags& flags) {
  QUIRE_TRY(const auto file, MappedFile::open(flags.text));
  if (file->bytes().size() > kMaxTextBytes)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("The text has {} bytes; at most {} are taken.",
                                  file->bytes().size(), kMaxTextBytes));
  const Tokenizer& tokenizer = *model.weights.tokenizer;
  const auto tokens = tokenizer.encode(
      file->bytes(),
      {.add_special = true, .specials = EncodeOptions::Specials::kNowhere, .special_ranges = {}});
  QUIRE_RETURN_IF_ERROR(file->check_intact());
  PerplexityOptions options = flags.options;
  if (tokenizer.adds_bos()) options.bos = tokenizer.bos_id();
  const bool show = !flags.bench.json;
  return measure_perplexity(*model.weights.model, tokens, options, [&](const Perplexity& now) {
    if (!show) return;
    fmt::print("chunk {:>5}: {:.4f}\n", now.chunks, now.perplexity);
    std::fflush(stdout);
  });
}

Status bench_perplexity(const BareModel& model, const PerplexityFlags& flags) {
  QUIRE_TRY(const Perplexity result, perplexity_of(model, flags));
  if (flags.bench.json)
    print_json({{"model", model.weights.name},
                {"description", model.weights.description},
                {"backend", model.device()},
                {"context", flags.options.context},
                {"chunks", result.chunks},
                {"scored_tokens", result.scored_tokens},
                {"mean_nll", result.mean_nll},
                {"perplexity", result.perplexity},
                {"standard_error", result.standard_error}});
  else
    fmt::print("{} ({}), {}\nperplexity {:.4f} +- {:.4f} over {} tokens in {} chunks of {}\n",
               model.weights.name, model.weights.description, model.device(), result.perplexity,
               result.standard_error, result.scored_tokens, result.chunks, flags.options.context);
  return Ok{};
}

constexpr const char* kFooter =
    R"(The text is cut into chunks of --context tokens that know nothing of each other. As in llama.cpp's
llama-perplexity only the second half of each is scored, and of that all but the first token: context -
context / 2 - 1 tokens a chunk, each with at least half a chunk before it. A model that wants a
beginning-of-sequence token gets it in place of every chunk's first token. What follows the last whole chunk
is not used.

--json prints one object: model, description, backend, context, chunks, scored_tokens, mean_nll (of a token,
natural logarithm), perplexity and standard_error (of the perplexity).)";

}  // namespace

void add_perplexity_bench(CLI::App& bench, int& exit_code) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App* command = bench.add_subcommand("perplexity", "How well a model predicts a text");
  flags->bench.add_to(*command);
  command->add_option("--text", flags->text, "A UTF-8 text file")->required();
  command->add_option("--context", flags->options.context, "Tokens of a chunk")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command->add_option("--chunks", flags->options.chunks, "Chunks taken; 0 = all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->footer(kFooter);
  command->callback([flags, &exit_code] {
    exit_code = with_model(flags->bench,
                           [&](const BareModel& model) { return bench_perplexity(model, *flags); });
  });
}

}  // namespace quire
