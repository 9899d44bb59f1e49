#include "tests/core/fake_runner.h"

#include <algorithm>

namespace quire::test {
namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

std::uint64_t fold(std::uint64_t sum, std::uint64_t entry) {
  return mix(sum + entry);
}

std::uint64_t finish_entry(std::uint64_t sum, TokenId token, int position) {
  const auto own = static_cast<std::uint64_t>(token) << 32 | static_cast<std::uint32_t>(position);
  return mix(sum ^ mix(own + 1)) | 1;  // never the poison value
}

TokenId pick(std::uint64_t entry, int vocab_size, std::span<const TokenId> banned) {
  auto token = static_cast<TokenId>(mix(entry) % static_cast<std::uint64_t>(vocab_size));
  while (std::ranges::find(banned, token) != banned.end()) token = (token + 1) % vocab_size;
  return token;
}

}  // namespace

FakeRunner::FakeRunner(int num_blocks, int block_size, int vocab_size, int num_swap_blocks)
    : block_size_(block_size),
      vocab_size_(vocab_size),
      host_(static_cast<std::size_t>(num_swap_blocks) * block_size, kPoison),
      pool_(static_cast<std::size_t>(num_blocks + 1) * block_size, kPoison) {}

// Only the tokens that matter are moved, so that a reader of any other finds poison.
double FakeRunner::move_blocks(std::span<const BlockMove> planned) {
  if (moves_fail && moves_fail()) throw DeviceError("the fake device failed to move a block");
  for (const BlockMove& move : planned) {
    ++moves;
    const auto& from = move.kind == MoveKind::kSwapIn ? host_ : pool_;
    auto& to = move.kind == MoveKind::kSwapOut ? host_ : pool_;
    const std::size_t source = static_cast<std::size_t>(move.source) * block_size_;
    const std::size_t target = static_cast<std::size_t>(move.target) * block_size_;
    const std::vector<std::uint64_t> held(from.begin() + source,
                                          from.begin() + source + move.num_tokens);
    std::fill_n(to.begin() + target, block_size_, kPoison);
    std::ranges::copy(held, to.begin() + target);
  }
  return 0;
}

void FakeRunner::poison(BlockId block) {
  std::fill_n(pool_.begin() + index(block) * block_size_, block_size_, kPoison);
}

std::uint64_t FakeRunner::compute_row(const Batch& batch, int request, int row) {
  const int position = batch.positions[row];
  const auto* table = &batch.block_table[static_cast<std::size_t>(request) * batch.max_blocks];
  std::uint64_t sum = 0;
  for (int p = 0; p < position; ++p) {
    const std::uint64_t entry = pool_[table[p / block_size_] * block_size_ + p % block_size_];
    if (entry == kPoison) ++poisoned_reads;
    sum = fold(sum, entry);
  }
  return finish_entry(sum, batch.input_ids[row], position);
}

// What a forward that stopped half-way leaves behind: values nobody may read.
void FakeRunner::spoil(const Batch& batch) {
  for (const std::int64_t slot : batch.slot_mapping)
    if (slot >= 0) pool_[slot] = kPoison;
}

Runner::Handle FakeRunner::launch(const Batch& batch, std::span<const SamplingRow> rows,
                                  const std::atomic<bool>& cancel) {
  ++launches;
  last_batch = batch;
  result_ = {};
  const Fate what = cancel.load() ? Fate::kCancel : fate ? fate(batch) : Fate::kRun;
  if (what != Fate::kRun) spoil(batch);
  if (what == Fate::kFail) throw DeviceError("the fake device failed");
  if (what == Fate::kCancel) {
    result_.cancelled = true;
    return 1;
  }
  std::vector<std::uint64_t> entries(batch.input_ids.size());
  for (int r = 0; r < batch.num_reqs(); ++r) {
    for (int row = batch.query_start_loc[r]; row < batch.query_start_loc[r + 1]; ++row) {
      const std::int64_t slot = batch.slot_mapping[row];
      entries[row] = slot < 0 ? 1 : compute_row(batch, r, row);
      pool_[slot < 0 ? pool_.size() - 1 : slot] = entries[row];
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    SampledRow sampled;
    sampled.token = pick(entries[batch.logits_indices[i]], vocab_size_, rows[i].banned);
    result_.rows.push_back(std::move(sampled));
  }
  return 1;
}

StepResult FakeRunner::collect(Handle) {
  return std::move(result_);
}

std::vector<TokenId> answer_alone(const Request& request, int vocab_size, int effective_context) {
  std::vector<TokenId> answer;
  std::uint64_t sum = 0;
  std::uint64_t entry = 0;
  int position = 0;
  const auto read = [&](TokenId token) {
    entry = finish_entry(sum, token, position++);
    sum = fold(sum, entry);
  };
  for (const TokenId token : request.token_ids) read(token);
  const int prompt = request.num_tokens();
  const SamplingParams& params = request.params;
  while (params.max_tokens < 0 || static_cast<int>(answer.size()) < params.max_tokens) {
    if (prompt + static_cast<int>(answer.size()) >= effective_context) break;
    const int produced = static_cast<int>(answer.size()) + 1;
    std::vector<TokenId> enders = params.stop_token_ids;
    if (!params.ignore_eos)
      enders.insert(enders.end(), request.eos_token_ids.begin(), request.eos_token_ids.end());
    const bool may_end = produced >= params.min_tokens;
    const TokenId token = pick(entry, vocab_size, may_end ? std::span<const TokenId>() : enders);
    answer.push_back(token);
    if (may_end && std::ranges::find(enders, token) != enders.end()) break;
    read(token);
  }
  return answer;
}

}  // namespace quire::test
