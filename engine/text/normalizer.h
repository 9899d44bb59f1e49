#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/text/pretokenizer_regex.h"

namespace quire {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Puts valid UTF-8 into a Unicode normal form. O(n log n) whatever the order of combining marks.
// utf8proc's tables are newer than those of Hugging Face's tokenizers (Unicode 9): runs of
// combining marks that Unicode added since are put in order here and left as they are there.
std::string to_unicode_form(std::string_view text, UnicodeForm form);

// What is done to text before it is pre-tokenized, in steps. Invalid UTF-8 passes through
// unchanged: the Unicode forms and regexes see only the valid stretches around it. Immutable; any
// thread.
class Normalizer {
 public:
  struct Prepend {
    std::string text;  // not put before an empty text
  };
  struct Replace {
    std::string from, to;  // every occurrence, left to right; `from` is not empty
  };
  struct ReplaceRegex {
    std::shared_ptr<const Regex> pattern;
    std::string to;
  };
  using Step = std::variant<UnicodeForm, Prepend, Replace, ReplaceRegex>;

  Normalizer() = default;
  explicit Normalizer(std::vector<Step> steps) : steps_(std::move(steps)) {}
  bool is_identity() const { return steps_.empty(); }
  std::string apply(std::string_view text) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace quire
