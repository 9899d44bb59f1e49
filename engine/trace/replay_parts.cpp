#include "engine/trace/replay_parts.h"

#include <algorithm>

namespace quire {

Runner::Handle ReplayRunner::launch(const Batch&, std::span<const SamplingRow> rows,
                                    const std::atomic<bool>&) {
  result_ = {};
  if (recorded_ == nullptr) return 0;
  if (recorded_->outcome == StepOutcome::kFailed)
    throw DeviceError("the device failed in the recording");
  result_.cancelled = recorded_->outcome == StepOutcome::kCancelled;
  if (result_.cancelled) return 0;
  result_.rows.resize(rows.size());
  std::size_t sampled = 0;
  for (std::size_t row = 0; row < rows.size();) {
    std::size_t count = 1;
    while (row + count < rows.size() && rows[row + count].request == rows[row].request) ++count;
    sampled =
        sample(rows.subspan(row, count), std::span(result_.rows).subspan(row, count), sampled);
    row += count;
  }
  return 0;
}

// Fills the rows of one request. Only the tokens delivered are recorded; behind a token that ended
// the request, whether a draft was accepted is known from the count.
std::size_t ReplayRunner::sample(std::span<const SamplingRow> rows, std::span<SampledRow> made,
                                 std::size_t sampled) const {
  const RequestId request = rows.front().request;
  const auto verified =
      std::ranges::find(recorded_->verified, request, &DraftVerification::request);
  const auto accepted =
      static_cast<std::size_t>(verified == recorded_->verified.end() ? 0 : verified->num_accepted);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TokenId& token = made[i].token;
    if (sampled < recorded_->sampled.size() && recorded_->sampled[sampled].request == request) {
      token = recorded_->sampled[sampled++].token;
    } else if (i + 1 < rows.size()) {
      const TokenId draft = rows[i + 1].token_ids.back();
      token = i < accepted ? draft : (draft + 1) % vocab_size_;
    }
  }
  return sampled;
}

StepResult ReplayRunner::collect(Handle) {
  return std::move(result_);
}

std::vector<TokenId> ReplayDrafter::propose(const Request& request) {
  if (recorded_ == nullptr) return {};
  const auto drafted = std::ranges::find(recorded_->drafted, request.id, &DraftProposal::request);
  return drafted == recorded_->drafted.end() ? std::vector<TokenId>() : drafted->tokens;
}

OutputProcessor::Outcome ReplayText::on_token(RequestId request, TokenId, bool) {
  if (recorded_ == nullptr) return {};
  if (step_ != recorded_->step || request_ != request) seen_ = 0;
  step_ = recorded_->step;
  request_ = request;
  ++seen_;
  const auto finish = std::ranges::find(recorded_->finished, request, &FinishRecord::request);
  if (finish == recorded_->finished.end() || finish->reason != FinishReason::kStop) return {};
  const auto delivered = std::ranges::count(recorded_->sampled, request, &SampledToken::request);
  if (seen_ < delivered) return {};
  return {{}, std::string("recorded")};
}

}  // namespace quire
