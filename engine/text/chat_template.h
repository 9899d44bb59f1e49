#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.h"
#include "engine/text/tokenizer.h"

namespace quire {

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
  std::string name;  // optional
};

struct ChatTemplateOptions {
  bool add_generation_prompt = true;
  std::string bos_token, eos_token;
  // Further variables as JSON text of one object (tools, enable_thinking, date_string, ...); "" =
  // none. Names that shadow the renderer's own (messages, chat_template, ...) are refused.
  std::string extra_variables_json;
  double now_s = 0;  // what strftime_now reads, seconds since 1970; no clock is read here
};

// A rendered prompt and where it came from: every byte is from the template or from a message (or
// from other caller-supplied data). Special tokens may be matched only in `template_ranges`.
struct RenderedPrompt {
  std::string text;
  std::vector<ByteRange> template_ranges;  // sorted, disjoint, maximal
};

// Limits of one rendering; exceeding one is an error, never a hang.
struct TemplateBudget {
  long max_steps = 2'000'000;
  std::size_t max_output_bytes = 32u << 20;
  int max_depth = 200;
};

// A compiled chat template: our own subset of Jinja with Hugging Face's settings (trim_blocks,
// lstrip_blocks). Immutable; `render` may be called from any thread.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Errors: raise_exception's text, an unsupported construct, a budget (kInvalidArgument).
  virtual Result<RenderedPrompt> render(const std::vector<ChatMessage>& messages,
                                        const ChatTemplateOptions& options) const = 0;
  // The same with messages as JSON text of an array (content parts, tool calls kept as given).
  virtual Result<RenderedPrompt> render_json(std::string_view messages_json,
                                             const ChatTemplateOptions& options) const = 0;
  virtual const std::string& source() const = 0;
};

// Compiles; a syntax error names line and construct.
Result<std::unique_ptr<ChatTemplate>> compile_chat_template(std::string source,
                                                            TemplateBudget budget = {});

// Used by models without a template (builtin:tiny): role and content on lines of their own.
std::string_view default_chat_template();

}  // namespace quire
