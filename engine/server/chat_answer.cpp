#include <nlohmann/json.hpp>

#include "engine/server/answer_shapes.h"

namespace quire {
namespace {

Json token_entry(const Tokenizer& tokenizer, TokenId token, float logprob) {
  const std::string text = shown_token(tokenizer, token);
  Json bytes = Json::array();
  for (const unsigned char byte : text) bytes.push_back(static_cast<int>(byte));
  return {{"token", text}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

Json logprobs_json(const Tokenizer& tokenizer, const std::vector<SampledRow>& rows) {
  Json content = Json::array();
  for (const auto& row : rows) {
    Json entry = token_entry(tokenizer, row.token, row.logprob);
    Json top = Json::array();
    for (const auto& other : row.top) {
      top.push_back(token_entry(tokenizer, other.token, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

class ChatShape : public AnswerShape {
 public:
  ChatShape(AnswerHead head, const Tokenizer& tokenizer, bool logprobs)
      : head_(std::move(head)), tokenizer_(tokenizer), logprobs_(logprobs) {}

  Json opening_chunk() override {
    return chunk({{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  }
  Json delta_chunk(const GenerationUpdate& update) override {
    return chunk({{"content", update.text}}, logprobs_of(update), nullptr);
  }
  Json finish_chunk(const GenerationUpdate& end) override {
    Json result = chunk(Json::object(), nullptr, finish_reason_name(end.finish_reason));
    result["timings"] = timings_json(end);
    return result;
  }
  Json usage_chunk(const GenerationUpdate& end) override {
    Json result = document("chat.completion.chunk");
    result["choices"] = Json::array();
    result["usage"] = usage_json(end);
    result["timings"] = timings_json(end);
    return result;
  }
  Json whole(const GenerationUpdate& collected) override {
    Json choice = {
        {"index", 0},
        {"message", {{"role", "assistant"}, {"content", collected.text}, {"refusal", nullptr}}},
        {"logprobs", logprobs_of(collected)},
        {"finish_reason", finish_reason_name(collected.finish_reason)}};
    Json result = document("chat.completion");
    result["choices"] = Json::array({std::move(choice)});
    result["usage"] = usage_json(collected);
    result["timings"] = timings_json(collected);
    return result;
  }

 private:
  Json document(const char* object) const {
    return {{"id", head_.id},
            {"object", object},
            {"created", head_.created_unix_s},
            {"model", head_.model},
            {"system_fingerprint", "quire"}};
  }
  Json chunk(Json delta, Json logprobs, Json finish_reason) const {
    Json result = document("chat.completion.chunk");
    result["choices"] = Json::array({{{"index", 0},
                                      {"delta", std::move(delta)},
                                      {"logprobs", std::move(logprobs)},
                                      {"finish_reason", std::move(finish_reason)}}});
    return result;
  }
  Json logprobs_of(const GenerationUpdate& update) const {
    return logprobs_ ? logprobs_json(tokenizer_, update.tokens) : Json(nullptr);
  }

  const AnswerHead head_;
  const Tokenizer& tokenizer_;
  const bool logprobs_;
};

}  // namespace

std::string shown_token(const Tokenizer& tokenizer, TokenId token) {
  const auto bytes = tokenizer.token_bytes(token);
  return std::string(bytes.empty() ? tokenizer.token_text(token) : bytes);
}

std::unique_ptr<AnswerShape> make_chat_shape(AnswerHead head, const Tokenizer& tokenizer,
                                             bool logprobs) {
  return std::make_unique<ChatShape>(std::move(head), tokenizer, logprobs);
}

}  // namespace quire
