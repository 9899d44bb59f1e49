#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/pretokenizer_regex.h"

namespace quire {

// What becomes of a delimiter's match when text is split at it (Hugging Face's names).
enum class SplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

// Cuts normalized text into the pieces BPE sees, in steps, each splitting every piece of the step
// before. Stretches of invalid UTF-8 are pieces of their own (once there is any step), which no
// step sees: patterns meet valid text only. Immutable; any thread.
class Pretokenizer {
 public:
  struct Split {
    std::shared_ptr<const Regex> pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;  // the pattern describes the pieces, not the delimiters
  };
  struct SplitLiteral {
    std::string delimiter;  // not empty
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
  };
  struct PrefixSpace {};  // a space before every piece that does not begin with one
  // SentencePiece's spaces: each becomes `bar`, one is put in front, pieces begin at each.
  struct Metaspace {
    enum class Prepend { kAlways, kFirst, kNever };
    std::string bar;  // "▁"
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };
  using Step = std::variant<Split, SplitLiteral, PrefixSpace, Metaspace>;

  Pretokenizer() = default;
  explicit Pretokenizer(std::vector<Step> steps) : steps_(std::move(steps)) {}

  // Fills `pieces` (none of them empty) with ranges of `text`, which steps may rewrite.
  // `at_text_start`: no added token came before this text.
  void apply(std::string& text, bool at_text_start, std::vector<Span>& pieces) const;

 private:
  std::vector<Step> steps_;
};

// GPT-2's own pattern, which "ByteLevel" pre-tokenizers with use_regex imply.
extern const std::string_view kGpt2Pattern;

}  // namespace quire
