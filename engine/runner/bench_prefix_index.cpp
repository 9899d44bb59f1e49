#include "engine/runner/bench_prefix_index.h"

#include <algorithm>

#include "engine/core/block_manager.h"
#include "engine/runner/bench_clock.h"
#include "engine/runner/bench_requests.h"
#include "engine/runner/serving_metrics.h"

namespace quire {
namespace {

constexpr int kBlockSize = 16, kVocab = 32000;
constexpr int kSystemTokens = 203, kExampleTokens = 117, kDocumentTokens = 331;
constexpr int kLeastQuestion = 9, kMostQuestion = 57;

// Prompts along paths of the tree; popular branches come up more often.
class Tree {
 public:
  explicit Tree(const PrefixIndexBenchOptions& options) : options_(options) {
    for (int s = 0; s < options.systems; ++s) systems_.push_back(tokens(kSystemTokens));
    for (int e = 0; e < options.systems * options.examples; ++e)
      examples_.push_back(tokens(kExampleTokens));
    for (int d = 0; d < options.systems * options.examples * options.documents; ++d)
      documents_.push_back(tokens(kDocumentTokens));
  }

  std::vector<TokenId> next() {
    const int system = pick(options_.systems);
    const int example = system * options_.examples + pick(options_.examples);
    const int document = example * options_.documents + pick(options_.documents);
    std::vector<TokenId> prompt = systems_[system];
    for (const auto* part : {&examples_[example], &documents_[document]})
      prompt.insert(prompt.end(), part->begin(), part->end());
    const auto question = tokens(random_.between(kLeastQuestion, kMostQuestion));
    prompt.insert(prompt.end(), question.begin(), question.end());
    return prompt;
  }

  static int num_blocks(const PrefixIndexBenchOptions& o) {
    const int tokens =
        o.systems * (kSystemTokens + o.examples * (kExampleTokens + o.documents * kDocumentTokens));
    return tokens / kBlockSize;
  }

 private:
  // The product of two uniform draws favours the first ones.
  int pick(int count) {
    return std::min(count - 1, static_cast<int>(random_.uniform() * random_.uniform() * count));
  }
  std::vector<TokenId> tokens(int count) { return random_tokens(random_, count, kVocab); }

  const PrefixIndexBenchOptions options_;
  BenchRandom random_{23};
  std::vector<std::vector<TokenId>> systems_, examples_, documents_;
};

class IndexRun {
 public:
  IndexRun(const PrefixIndexBenchOptions& options, PrefixIndexKind kind)
      : options_(options), tree_(options) {
    const int longest =
        kSystemTokens + kExampleTokens + kDocumentTokens + kMostQuestion + kBlockSize;
    line_.index = kind;
    line_.num_blocks = std::max(longest / kBlockSize + 1,
                                static_cast<int>(options.pool_part * Tree::num_blocks(options)));
    blocks_ = std::make_unique<BlockManager>(line_.num_blocks, kBlockSize,
                                             make_prefix_index(kind, line_.num_blocks, kBlockSize));
  }

  PrefixIndexBenchLine run() {
    for (int i = 0; i < options_.requests; ++i) serve(i);
    line_.evictions = blocks_->num_evictions();
    line_.hit_rate =
        static_cast<double>(line_.hit_tokens) / static_cast<double>(line_.prompt_tokens);
    line_.lookup_p50_us = lookups_.percentile(0.5);
    line_.lookup_p99_us = lookups_.percentile(0.99);
    line_.first_lookup_p50_us = first_lookups_.percentile(0.5);
    return line_;
  }

 private:
  PrefixMatch lookup(Request& request, Samples& times) {
    const double start = bench_clock();
    PrefixMatch match = blocks_->find_cached_prefix(request, request.num_tokens() - 1);
    times.add((bench_clock() - start) * 1e6);
    return match;
  }

  // What a prompt does to the pool from admission to end.
  void serve(int number) {
    const auto request = greedy_request(number, tree_.next(), 1);
    lookup(*request, first_lookups_);
    const PrefixMatch match = lookup(*request, lookups_);
    const int tokens = request->num_tokens();
    const int whole = static_cast<int>(match.blocks.size()) * kBlockSize;
    line_.prompt_tokens += tokens;
    line_.hit_tokens += whole + match.partial_tokens;
    line_.copied_tokens += match.partial_tokens;
    if (match.partial != kNoBlock) ++line_.partial_copies;
    const bool allocated = blocks_->allocate_slots(*request, tokens, match);
    QUIRE_CHECK(allocated, number, blocks_->num_free());
    blocks_->publish(*request, tokens);
    blocks_->commit_published();
    blocks_->publish_tail(*request, tokens);
    blocks_->free(request->id);
  }

  const PrefixIndexBenchOptions options_;
  Tree tree_;
  std::unique_ptr<BlockManager> blocks_;
  PrefixIndexBenchLine line_;
  Samples lookups_, first_lookups_;
};

}  // namespace

Result<std::vector<PrefixIndexBenchLine>> run_prefix_index_bench(const PrefixIndexBenchOptions& o) {
  if (o.requests < 1 || o.systems < 1 || o.examples < 1 || o.documents < 1 || o.systems > 1000 ||
      o.examples > 1000 || o.documents > 1000 || !(o.pool_part > 0) || o.pool_part > 100)
    return make_error(ErrorCode::kInvalidArgument,
                      "The bench needs requests, branches and a pool above zero.");
  return std::vector<PrefixIndexBenchLine>{IndexRun(o, PrefixIndexKind::kHash).run(),
                                           IndexRun(o, PrefixIndexKind::kRadix).run()};
}

}  // namespace quire
