#include <nlohmann/json.hpp>

#include "engine/server/answer_shapes.h"

namespace quire {
namespace {

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const unsigned char byte : text) count += (byte & 0xC0) != 0x80;
  return count;
}

class CompletionShape : public AnswerShape {
 public:
  CompletionShape(AnswerHead head, const Tokenizer& tokenizer, bool logprobs)
      : head_(std::move(head)), tokenizer_(tokenizer), logprobs_(logprobs) {}

  Json opening_chunk() override { return nullptr; }
  Json delta_chunk(const GenerationUpdate& update) override {
    return document(choice(update.text, logprobs_of(update), nullptr));
  }
  Json finish_chunk(const GenerationUpdate& end) override {
    Json result = document(choice("", nullptr, finish_reason_name(end.finish_reason)));
    result["timings"] = timings_json(end);
    return result;
  }
  Json usage_chunk(const GenerationUpdate& end) override {
    Json result = document(nullptr);
    result["usage"] = usage_json(end);
    result["timings"] = timings_json(end);
    return result;
  }
  Json whole(const GenerationUpdate& collected) override {
    Json result = document(choice(collected.text, logprobs_of(collected),
                                  finish_reason_name(collected.finish_reason)));
    result["usage"] = usage_json(collected);
    result["timings"] = timings_json(collected);
    return result;
  }

 private:
  Json document(Json the_choice) const {
    Json choices = Json::array();
    if (!the_choice.is_null()) choices.push_back(std::move(the_choice));
    return {
        {"id", head_.id},       {"object", "text_completion"},   {"created", head_.created_unix_s},
        {"model", head_.model}, {"system_fingerprint", "quire"}, {"choices", std::move(choices)}};
  }
  static Json choice(const std::string& text, Json logprobs, Json finish_reason) {
    return {{"text", text},
            {"index", 0},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(finish_reason)}};
  }

  // The older format: parallel arrays, offsets in characters of the text so far.
  Json logprobs_of(const GenerationUpdate& update) {
    if (!logprobs_) return nullptr;
    Json tokens = Json::array(), values = Json::array(), tops = Json::array(),
         offsets = Json::array();
    for (const auto& row : update.tokens) {
      const std::string text = shown_token(tokenizer_, row.token);
      Json top = Json::object();
      for (const auto& other : row.top) top[shown_token(tokenizer_, other.token)] = other.logprob;
      tokens.push_back(text);
      values.push_back(row.logprob);
      tops.push_back(row.top.empty() ? Json(nullptr) : std::move(top));
      offsets.push_back(offset_);
      offset_ += count_characters(text);
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(values)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
  }

  const AnswerHead head_;
  const Tokenizer& tokenizer_;
  const bool logprobs_;
  std::size_t offset_ = 0;
};

}  // namespace

std::unique_ptr<AnswerShape> make_completion_shape(AnswerHead head, const Tokenizer& tokenizer,
                                                   bool logprobs) {
  return std::make_unique<CompletionShape>(std::move(head), tokenizer, logprobs);
}

}  // namespace quire
