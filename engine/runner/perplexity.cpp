#include "engine/runner/perplexity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "engine/core/engine_config.h"

namespace quire {
namespace {

// Rows of a forward pass; bounds the logits held at once.
constexpr int kPiece = 128;
constexpr int kBlockSize = 16;

double negative_log_likelihood(std::span<const float> logits, TokenId token) {
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return std::log(sum) - (logits[static_cast<std::size_t>(token)] - largest);
}

class Scorer {
 public:
  Scorer(FlatModel& model, int context)
      : model_(model),
        first_scored_row_(context / 2),
        block_table_(static_cast<std::size_t>((context + kBlockSize - 1) / kBlockSize)),
        pool_(model.backend().allocate_kv(model.config().kv_spec(),
                                          static_cast<int>(block_table_.size()), kBlockSize)) {
    std::iota(block_table_.begin(), block_table_.end(), 0);
    model.reserve(kPiece);
  }

  void add(std::span<const TokenId> chunk) {
    const int size = static_cast<int>(chunk.size());
    for (int begin = 0; begin < size; begin += kPiece)
      piece(chunk, begin, std::min(size, begin + kPiece));
    ++result_.chunks;
    const auto n = static_cast<double>(result_.scored_tokens);
    result_.mean_nll = sum_ / n;
    result_.perplexity = std::exp(result_.mean_nll);
    const double variance = std::max(0.0, squares_ / n - result_.mean_nll * result_.mean_nll);
    result_.standard_error = n > 1 ? result_.perplexity * std::sqrt(variance / (n - 1)) : 0;
  }

  const Perplexity& result() const { return result_; }

 private:
  // Computes tokens [begin, end); a row predicts the token behind it.
  void piece(std::span<const TokenId> chunk, int begin, int end) {
    const int n = end - begin;
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), begin);
    const std::vector<std::int64_t> slots(positions.begin(), positions.end());
    const std::int32_t starts[] = {0, n};
    const std::int32_t length = end;
    const BatchView batch{.num_tokens = n,
                          .num_reqs = 1,
                          .input_ids = chunk.data() + begin,
                          .positions = positions.data(),
                          .slot_mapping = slots.data(),
                          .query_start_loc = starts,
                          .seq_lens = &length,
                          .block_table = block_table_.data(),
                          .max_blocks = static_cast<int>(block_table_.size())};
    std::vector<std::int32_t> rows;
    const int last = std::min(end, static_cast<int>(chunk.size()) - 1);
    for (int row = std::max(begin, first_scored_row_); row < last; ++row)
      rows.push_back(row - begin);
    const auto vocab = static_cast<std::size_t>(model_.config().vocab_size);
    logits_.resize(rows.size() * vocab);
    const std::atomic<bool> never{false};
    model_.forward_logits(batch, *pool_, rows, logits_, never);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TokenId next = chunk[static_cast<std::size_t>(begin + rows[i] + 1)];
      const double nll =
          negative_log_likelihood(std::span(logits_).subspan(i * vocab, vocab), next);
      sum_ += nll;
      squares_ += nll * nll;
      ++result_.scored_tokens;
    }
  }

  FlatModel& model_;
  const int first_scored_row_;
  std::vector<std::int32_t> block_table_;
  std::unique_ptr<KvPool> pool_;
  std::vector<float> logits_;  // [rows, vocab]
  double sum_ = 0, squares_ = 0;
  Perplexity result_;
};

Error invalid(const std::string& sentence) {
  return make_error(ErrorCode::kInvalidArgument, sentence);
}

Status check(const ModelConfig& config, std::span<const TokenId> text, const PerplexityOptions& o) {
  if (o.context < 4 || o.context > config.context_length)
    return invalid("A chunk must have between 4 and " + std::to_string(config.context_length) +
                   " tokens, the model's context.");
  if (o.chunks < 0) return invalid("The number of chunks cannot be negative.");
  const std::size_t whole = text.size() / static_cast<std::size_t>(o.context);
  if (whole < static_cast<std::size_t>(std::max(1, o.chunks)))
    return invalid("The text has " + std::to_string(text.size()) + " tokens, not the " +
                   std::to_string(std::max(1, o.chunks)) + " x " + std::to_string(o.context) +
                   " that were asked for.");
  if (o.bos >= config.vocab_size) return invalid("The first token is not in the vocabulary.");
  return check_token_ids(text, config.vocab_size);
}

}  // namespace

Result<Perplexity> measure_perplexity(FlatModel& model, std::span<const TokenId> text,
                                      const PerplexityOptions& o,
                                      const std::function<void(const Perplexity&)>& after_chunk) {
  QUIRE_RETURN_IF_ERROR(check(model.config(), text, o));
  const auto size = static_cast<std::size_t>(o.context);
  const std::size_t chunks = o.chunks > 0 ? static_cast<std::size_t>(o.chunks) : text.size() / size;
  try {
    Scorer scorer(model, o.context);
    for (std::size_t i = 0; i < chunks; ++i) {
      const auto part = text.subspan(i * size, size);
      std::vector<TokenId> chunk(part.begin(), part.end());
      if (o.bos >= 0) chunk.front() = o.bos;
      scorer.add(chunk);
      if (after_chunk) after_chunk(scorer.result());
    }
    return scorer.result();
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kOutOfMemory, "There is not enough memory for chunks of " +
                                                   std::to_string(o.context) +
                                                   " tokens; ask for fewer.");
  }
}

}  // namespace quire
