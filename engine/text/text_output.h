#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/engine_core.h"
#include "engine/text/tokenizer.h"

namespace quire {

// Finds stop strings in a text that arrives in pieces. Text that may be the start of a stop string
// is held back, so what was delivered never has to be taken back.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  struct Outcome {
    std::string text;  // to deliver; ends before a match
    int matched = -1;  // index of the stop string found, the earliest in the text; -1: none
  };
  // `armed` false: nothing is looked for or held back.
  Outcome push(std::string_view piece, bool armed);
  std::string finish();  // what was held back
  const std::string& stop(int which) const { return stops_[static_cast<std::size_t>(which)]; }

 private:
  std::size_t held_suffix() const;

  std::vector<std::string> stops_;
  std::string held_;
};

// Detokenises each request's output and applies its stop strings. Engine thread only; the tokenizer
// must outlive it.
class TextOutputProcessor : public OutputProcessor {
 public:
  explicit TextOutputProcessor(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void begin(const Request& request) override;
  Outcome on_token(RequestId request, TokenId token, bool stops_allowed) override;
  std::string finish(RequestId request, FinishReason reason) override;

 private:
  struct State {
    StreamDetokenizer detokenizer;
    StopMatcher stops;
  };
  const Tokenizer& tokenizer_;
  std::unordered_map<std::int64_t, State> states_;
};

}  // namespace quire
