#include "engine/server/generation_options.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace quire {
namespace {

constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
constexpr double kMaxTemperature = 100;
constexpr double kMaxRepetitionPenalty = 100;
constexpr std::int64_t kMaxPriority = 1'000'000;

void read_int(FieldReader& fields, std::string_view name, std::int64_t low, std::int64_t high,
              int& target) {
  std::int64_t value = 0;
  if (fields.integer(name, low, high, value)) target = static_cast<int>(value);
}

void read_seed(FieldReader& fields, SamplingParams& params) {
  const Json* value = fields.find("seed");
  if (value == nullptr) return;
  if (value->is_number_unsigned()) {
    params.seed = value->get<std::uint64_t>();
    return;
  }
  const auto number = exact_integer(*value);
  if (!number) {
    fields.fail("seed", "must be a 64-bit integer");
  } else if (*number != -1) {  // -1 asks for a random one
    params.seed = static_cast<std::uint64_t>(*number);
  }
}

void read_stop(FieldReader& fields, const ServerLimits& limits, SamplingParams& params) {
  const Json* value = fields.find("stop");
  if (value == nullptr) return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > limits.max_stop_strings) {
    fields.fail("stop", "has more than " + std::to_string(limits.max_stop_strings) + " strings");
    return;
  }
  for (const auto& entry : list) {
    if (!entry.is_string()) return fields.fail("stop", "must be a string or a list of strings");
    const auto& text = entry.get_ref<const std::string&>();
    if (text.size() > limits.max_stop_bytes) {
      return fields.fail(
          "stop", "has a string of more than " + std::to_string(limits.max_stop_bytes) + " bytes");
    }
    if (!text.empty()) params.stop.push_back(text);
  }
}

void read_stop_token_ids(FieldReader& fields, const ServerLimits& limits, int vocab_size,
                         SamplingParams& params) {
  const Json* value = fields.find("stop_token_ids");
  if (value == nullptr) return;
  if (!value->is_array() || value->size() > limits.max_stop_strings) {
    return fields.fail(
        "stop_token_ids",
        "must be a list of at most " + std::to_string(limits.max_stop_strings) + " token ids");
  }
  for (const auto& entry : *value) {
    const auto id = exact_integer(entry);
    if (!id || *id < 0 || *id >= vocab_size) {
      return fields.fail("stop_token_ids", "holds something that is not a token id of this model");
    }
    params.stop_token_ids.push_back(static_cast<TokenId>(*id));
  }
}

bool asks_for_nothing(const Json& value) {
  return (value.is_structured() && value.empty()) || value == Json("") || value == Json(false);
}

void refuse_unsupported(FieldReader& fields) {
  std::int64_t n = 1;
  if (fields.integer("n", 1, 128, n) && n > 1) {
    fields.fail("n", "must be 1: this server makes one choice per request");
  }
  for (const char* name :
       {"logit_bias", "grammar", "json_schema", "structured_outputs", "guided_json", "guided_regex",
        "guided_choice", "guided_grammar", "functions", "prompt_logprobs"}) {
    const Json* value = fields.find(name);
    if (value != nullptr && !asks_for_nothing(*value)) {
      fields.fail(name, "is not supported by this server");
    }
  }
  const Json* format = fields.find("response_format");
  if (format == nullptr) return;
  if (!format->is_object()) return fields.fail("response_format", "must be an object");
  const auto type = format->find("type");
  if (type != format->end() && *type != Json("text")) {
    fields.fail("response_format", "supports only the type 'text' on this server");
  }
}

void read_stream_options(FieldReader& fields, GenerationOptions& options) {
  fields.boolean("stream", options.stream);
  const Json* value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail("stream_options", "must be an object");
  const auto usage = value->find("include_usage");
  if (usage == value->end() || usage->is_null()) return;
  if (!usage->is_boolean()) {
    return fields.fail("stream_options.include_usage", "must be true or false");
  }
  options.include_usage = usage->get<bool>();
}

// An empty salt would share what its sender wants kept apart.
void read_cache_salt(FieldReader& fields, const ServerLimits& limits, std::string& cache_salt) {
  std::string salt;
  if (!fields.text("cache_salt", salt)) return;
  if (salt.empty() || salt.size() > limits.max_cache_salt_bytes) {
    return fields.fail("cache_salt", "must have from 1 to " +
                                         std::to_string(limits.max_cache_salt_bytes) + " bytes");
  }
  cache_salt = std::move(salt);
}

}  // namespace

void read_max_tokens(FieldReader& fields, int& max_tokens) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    const Json* value = fields.find(name);
    if (value == nullptr) continue;
    // However large, it only means "as much as fits".
    const bool huge = value->is_number() && value->get<double>() >= static_cast<double>(kMaxInt);
    std::int64_t number = kMaxInt;
    if (!huge && !fields.integer(name, -1, std::numeric_limits<std::int64_t>::max(), number))
      return;
    max_tokens = static_cast<int>(std::min(number, kMaxInt));
  }
}

void read_generation_options(FieldReader& fields, const ServerLimits& limits, int vocab_size,
                             GenerationOptions& options) {
  SamplingParams& params = options.params;
  refuse_unsupported(fields);
  read_stream_options(fields, options);
  fields.number("temperature", 0, kMaxTemperature, params.temperature);
  fields.number("top_p", 0, 1, params.top_p);
  fields.number("min_p", 0, 1, params.min_p);
  fields.number("presence_penalty", -2, 2, params.presence_penalty);
  fields.number("frequency_penalty", -2, 2, params.frequency_penalty);
  fields.number("repeat_penalty", 0, kMaxRepetitionPenalty, params.repetition_penalty);
  fields.number("repetition_penalty", 0, kMaxRepetitionPenalty, params.repetition_penalty);
  read_int(fields, "top_k", -1, kMaxInt, params.top_k);
  params.top_k = std::max(params.top_k, 0);  // -1: all, as vLLM has it
  read_int(fields, "min_tokens", 0, kMaxInt, params.min_tokens);
  fields.boolean("ignore_eos", params.ignore_eos);
  read_seed(fields, params);
  read_stop(fields, limits, params);
  read_stop_token_ids(fields, limits, vocab_size, params);
  read_int(fields, "priority", -kMaxPriority, kMaxPriority, options.priority);
  read_cache_salt(fields, limits, options.cache_salt);
}

}  // namespace quire
