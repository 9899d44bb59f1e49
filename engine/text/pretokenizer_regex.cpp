#include "engine/text/pretokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "engine/text/utf8.h"

namespace quire {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000;   // backtracks per match
constexpr std::uint32_t kDepthLimit = 10'000;       // nested backtracking points, interpreter only
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;  // interpreter only
constexpr std::uint32_t kParenNestLimit = 64;
constexpr std::size_t kJitStackBytes = 1024 * 1024;

// One thread's working memory, shared by all patterns: PCRE2's code is immutable, this is not.
class MatchContext {
 public:
  MatchContext()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)) {
    if (context_ == nullptr) return;
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_depth_limit(context_, kDepthLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchContext() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    pcre2_jit_stack_free(stack_);
  }
  MatchContext(const MatchContext&) = delete;
  MatchContext& operator=(const MatchContext&) = delete;

  bool usable() const { return data_ != nullptr && context_ != nullptr; }

  // Searches from `start`; false when there is no match or a limit was hit.
  bool search(const pcre2_code* code, std::string_view text, std::size_t start, Span& match) {
    const int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                               PCRE2_NO_UTF_CHECK, data_, context_);
    if (rc < 0) return false;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_);
    match = {ends[0], ends[1]};
    return match.begin >= start && match.begin <= match.end;
  }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

std::string describe(int error) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

Result<std::shared_ptr<const Regex>> Regex::compile(std::string_view pattern) {
  QUIRE_TRY(const std::string translated, translate_regex(pattern));
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context != nullptr) {
    pcre2_set_parens_nest_limit(context, kParenNestLimit);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
      &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr)
    return make_error(ErrorCode::kUnsupportedModel, "the tokenizer's pattern \"" +
                                                        std::string(pattern.substr(0, 200)) +
                                                        "\" does not compile: " + describe(error));
  // Without JIT (no executable memory) the interpreter does the same work more slowly.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

void Regex::find_all(std::string_view text, std::vector<Span>& out) const {
  thread_local MatchContext context;
  if (!context.usable()) return;
  std::size_t start = 0;
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::size_t last_end = kNone;
  Span match;
  while (start <= text.size() && context.search(code_->code, text, start, match)) {
    const bool empty = match.begin == match.end;
    if (!empty || match.end != last_end) out.push_back(match);
    last_end = match.end;
    start = match.end;
    // An empty match would be found again: go on behind the next character.
    if (empty) start += start < text.size() ? read_utf8(text, start).length : 1;
  }
}

}  // namespace quire
