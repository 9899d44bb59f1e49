#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/model/model.h"
#include "engine/model/tensors.h"

namespace quire {

// A model opened and checked but not packed: what loading and inspecting share.
struct OpenedModel {
  std::string name, format;  // format for people: "GGUF v3", "Hugging Face folder", "built-in"
  std::unique_ptr<WeightSource> source;
  ModelConfig config;
  ModelTensors tensors;                                                // point into source
  std::function<Result<std::unique_ptr<Tokenizer>>()> make_tokenizer;  // uses source
  std::string chat_template;                                           // "" = none
};

// `path` as for load_model.
Result<OpenedModel> open_model(const std::string& path);

// "135 M", "1.7 B", "260 k": a parameter count for people.
std::string count_text(std::int64_t num_parameters);

// The template inside tokenizer_config.json: a string, or the one named "default" in a list of
// {name, template}. "" when there is none or the JSON is not readable.
std::string template_from_tokenizer_config(std::string_view tokenizer_config_json);

}  // namespace quire
