#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.h"

namespace quire {

// Half-open byte range of a text.
struct Span {
  std::size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

inline constexpr std::size_t kMaxRegexBytes = 16384;

// Rewrites a pattern from the dialect tokenizer files are written in (Oniguruma's Ruby syntax) to
// PCRE2's: \s is White_Space, \w adds marks and connectors, \p{Name} of a script means Script and
// not Script_Extensions, ^ and $ match at every line. Refuses, by name, what would mean something
// else: back-references, class intersection and nesting, escapes PCRE2 reads differently.
Result<std::string> translate_regex(std::string_view pattern);

// A compiled pattern (PCRE2: UTF, UCP, JIT where the machine allows it). Immutable; any thread.
class Regex {
 public:
  static Result<std::shared_ptr<const Regex>> compile(std::string_view pattern);  // Oniguruma's
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // Appends every match, left to right, without overlap. `text` must be valid UTF-8. A match that
  // exceeds the work limits (a hostile pattern) ends the search: what follows is unmatched text.
  void find_all(std::string_view text, std::vector<Span>& out) const;

 private:
  struct Code;  // pcre2_code
  explicit Regex(std::unique_ptr<Code> code);
  std::unique_ptr<Code> code_;
};

}  // namespace quire
