#include "engine/text/text_output.h"

#include <algorithm>

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

StopMatcher::Outcome StopMatcher::push(std::string_view piece, bool armed) {
  held_ += piece;
  Outcome outcome;
  if (!armed || stops_.empty()) {
    outcome.text = std::move(held_);
    held_.clear();
    return outcome;
  }
  std::size_t first = std::string::npos;
  for (std::size_t i = 0; i < stops_.size(); ++i) {
    const std::size_t at = held_.find(stops_[i]);
    if (at < first) {
      first = at;
      outcome.matched = static_cast<int>(i);
    }
  }
  if (outcome.matched >= 0) {
    outcome.text = held_.substr(0, first);
    held_.clear();
    return outcome;
  }
  const std::size_t keep = held_suffix();
  outcome.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return outcome;
}

// Length of the longest suffix of the held text that is a proper prefix of some stop string.
std::size_t StopMatcher::held_suffix() const {
  std::size_t best = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > best; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) {
        best = n;
        break;
      }
    }
  }
  return best;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

void TextOutputProcessor::begin(const Request& request) {
  states_.insert_or_assign(index(request.id),
                           State{StreamDetokenizer(tokenizer_), StopMatcher(request.params.stop)});
}

OutputProcessor::Outcome TextOutputProcessor::on_token(RequestId request, TokenId token,
                                                       bool stops_allowed) {
  State& state = states_.at(index(request));
  StopMatcher::Outcome found = state.stops.push(state.detokenizer.push(token), stops_allowed);
  Outcome outcome{std::move(found.text), std::nullopt};
  if (found.matched >= 0) outcome.stop_string = state.stops.stop(found.matched);
  return outcome;
}

std::string TextOutputProcessor::finish(RequestId request, FinishReason) {
  const auto it = states_.find(index(request));
  if (it == states_.end()) return {};
  const StopMatcher::Outcome last = it->second.stops.push(it->second.detokenizer.finish(), false);
  states_.erase(it);
  return last.text;
}

}  // namespace quire
