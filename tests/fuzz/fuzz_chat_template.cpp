#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/text/chat_template.h"
#include "kernels/check.h"

namespace {

// The ranges must be sorted, disjoint, maximal and inside the text.
void check_ranges(const quire::RenderedPrompt& prompt) {
  std::size_t previous_end = 0;
  bool first = true;
  for (const quire::ByteRange& range : prompt.template_ranges) {
    QUIRE_CHECK(range.begin < range.end && range.end <= prompt.text.size(), "range in text");
    QUIRE_CHECK(first || range.begin > previous_end, "ranges apart");
    previous_end = range.end;
    first = false;
  }
}

}  // namespace

// Input: a template, a zero byte, messages as JSON text, and optionally a zero byte and extra
// variables as JSON text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t first = std::min(input.find('\0'), input.size());
  const std::string_view rest = input.substr(std::min(first + 1, input.size()));
  const std::size_t second = std::min(rest.find('\0'), rest.size());

  quire::TemplateBudget budget;
  budget.max_steps = 20'000;
  budget.max_output_bytes = 1u << 20;
  const auto compiled = quire::compile_chat_template(std::string(input.substr(0, first)), budget);
  if (!compiled.ok()) return 0;
  quire::ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.now_s = 1'741'356'309;
  options.extra_variables_json = rest.substr(std::min(second + 1, rest.size()));
  const auto prompt = (*compiled)->render_json(rest.substr(0, second), options);
  if (prompt.ok()) check_ranges(*prompt);
  return 0;
}
