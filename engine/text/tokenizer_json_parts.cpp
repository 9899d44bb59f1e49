#include "engine/text/tokenizer_json_parts.h"

#include <nlohmann/json.hpp>

namespace quire {
namespace {

using nlohmann::json;

constexpr const char* kBar = "\xE2\x96\x81";  // U+2581
constexpr std::size_t kMaxSteps = 256;        // of a Sequence, flattened

// A pattern that is either a literal string or a regex.
struct Pattern {
  std::string literal;
  std::shared_ptr<const Regex> regex;  // null: literal
};

Result<Pattern> pattern_of(const json& component, const std::string& section) {
  const auto it = component.find("pattern");
  if (it == component.end() || !it->is_object()) return bad_section(section, "a missing pattern");
  Pattern out;
  if (const std::string regex = json_string(*it, "Regex"); !regex.empty()) {
    QUIRE_TRY(out.regex, Regex::compile(regex));
    return out;
  }
  out.literal = json_string(*it, "String");
  if (out.literal.empty()) return bad_section(section, "an empty pattern");
  return out;
}

// Visits the components of a section, Sequences flattened. `member` is the Sequence's list.
template <typename Visit>
Status for_each_component(const json& section, const std::string& name, const char* member,
                          std::size_t& count, const Visit& visit) {
  if (section.is_null()) return Ok{};
  if (!section.is_object()) return bad_section(name, "something that is not an object");
  if (++count > kMaxSteps) return bad_section(name, "too many components");
  const std::string type = json_string(section, "type");
  if (type != "Sequence") return visit(section, type);
  const json* list = json_array(section, member);
  if (list == nullptr) return bad_section(name, "a Sequence without members");
  for (const json& component : *list)
    QUIRE_RETURN_IF_ERROR(for_each_component(component, name, member, count, visit));
  return Ok{};
}

std::optional<UnicodeForm> unicode_form(const std::string& type) {
  if (type == "NFC") return UnicodeForm::kNfc;
  if (type == "NFD") return UnicodeForm::kNfd;
  if (type == "NFKC") return UnicodeForm::kNfkc;
  if (type == "NFKD") return UnicodeForm::kNfkd;
  return std::nullopt;
}

Result<Normalizer::Step> normalizer_step(const json& component, const std::string& type) {
  if (const auto form = unicode_form(type)) return Normalizer::Step(*form);
  if (type == "Prepend")
    return Normalizer::Step(Normalizer::Prepend{json_string(component, "prepend")});
  if (type != "Replace") return unsupported_section("normalizer", type);
  QUIRE_TRY(Pattern pattern, pattern_of(component, "normalizer"));
  const std::string to = json_string(component, "content");
  if (pattern.regex != nullptr)
    return Normalizer::Step(Normalizer::ReplaceRegex{pattern.regex, to});
  return Normalizer::Step(Normalizer::Replace{pattern.literal, to});
}

Result<SplitBehavior> split_behavior(const std::string& name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return unsupported_section("pre_tokenizer", "the split behavior " + name);
}

Result<Pretokenizer::Step> regex_step(const char* pattern, SplitBehavior behavior) {
  QUIRE_TRY(auto regex, Regex::compile(pattern));
  return Pretokenizer::Step(Pretokenizer::Split{std::move(regex), behavior});
}

Result<Pretokenizer::Step> split_step(const json& component) {
  QUIRE_TRY(Pattern pattern, pattern_of(component, "pre_tokenizer"));
  QUIRE_TRY(const SplitBehavior behavior, split_behavior(json_string(component, "behavior")));
  const bool invert = json_bool(component, "invert", false);
  if (pattern.regex != nullptr)
    return Pretokenizer::Step(Pretokenizer::Split{pattern.regex, behavior, invert});
  return Pretokenizer::Step(Pretokenizer::SplitLiteral{pattern.literal, behavior, invert});
}

Result<Pretokenizer::Step> metaspace_step(const json& component) {
  using Prepend = Pretokenizer::Metaspace::Prepend;
  Pretokenizer::Metaspace step;
  step.bar = json_string(component, "replacement", kBar);
  step.split = json_bool(component, "split", true);
  const std::string scheme = json_string(component, "prepend_scheme", "always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return unsupported_section("pre_tokenizer", "the prepend_scheme " + scheme);
  step.prepend = scheme == "always"  ? Prepend::kAlways
                 : scheme == "first" ? Prepend::kFirst
                                     : Prepend::kNever;
  // The form before prepend_scheme.
  if (!component.contains("prepend_scheme") && !json_bool(component, "add_prefix_space", true))
    step.prepend = Prepend::kNever;
  return Pretokenizer::Step(std::move(step));
}

// Every component but ByteLevel is one step.
Result<Pretokenizer::Step> pretokenizer_step(const json& component, const std::string& type) {
  if (type == "Split") return split_step(component);
  if (type == "Metaspace") return metaspace_step(component);
  if (type == "Digits")
    return regex_step(R"(\p{N})", json_bool(component, "individual_digits", false)
                                      ? SplitBehavior::kIsolated
                                      : SplitBehavior::kContiguous);
  if (type == "Punctuation") {
    QUIRE_TRY(const SplitBehavior behavior,
              split_behavior(json_string(component, "behavior", "Isolated")));
    return regex_step(R"([\p{P}!-/:-@\[-`{-~])", behavior);
  }
  return unsupported_section("pre_tokenizer", type);
}

Status add_byte_level(const json& component, std::vector<Pretokenizer::Step>& steps) {
  if (json_bool(component, "add_prefix_space", true))
    steps.emplace_back(std::in_place_type<Pretokenizer::PrefixSpace>);
  if (!json_bool(component, "use_regex", true)) return Ok{};
  QUIRE_TRY(auto step, regex_step(std::string(kGpt2Pattern).c_str(), SplitBehavior::kIsolated));
  steps.push_back(std::move(step));
  return Ok{};
}

Status template_ids(const json& processor, int vocab_size, JsonPostProcessor& out) {
  const json* single = json_array(processor, "single");
  const auto specials = processor.find("special_tokens");
  if (single == nullptr) return bad_section("post_processor", "a template that is not a list");
  bool after_text = false;
  for (const json& item : *single) {
    if (item.is_object() && item.contains("Sequence")) {
      if (after_text)
        return unsupported_section("post_processor", "a template that repeats the text");
      after_text = true;
      continue;
    }
    const std::string name = item.is_object() && item.contains("SpecialToken")
                                 ? json_string(item["SpecialToken"], "id")
                                 : "";
    if (specials == processor.end() || !specials->is_object() || !specials->contains(name))
      return bad_section("post_processor", "a template token that is not declared");
    const json* ids = json_array((*specials)[name], "ids");
    if (ids == nullptr || ids->size() > kMaxSteps)
      return bad_section("post_processor", "a template token without ids");
    for (const json& id : *ids) {
      if (!id.is_number_unsigned() ||
          id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab_size))
        return bad_section("post_processor", "an id outside the vocabulary");
      (after_text ? out.suffix_ids : out.prefix_ids).push_back(id.get<TokenId>());
    }
  }
  return Ok{};
}

}  // namespace

Error unsupported_section(const std::string& section, const std::string& what) {
  return make_error(ErrorCode::kUnsupportedModel, "tokenizer.json uses the " + section + " \"" +
                                                      what.substr(0, 100) +
                                                      "\", which is not supported");
}

Error bad_section(const std::string& section, const std::string& what) {
  return make_error(ErrorCode::kBadModelFile,
                    "tokenizer.json is damaged: " + section + " has " + what);
}

std::string json_string(const json& object, const char* key, const char* fallback) {
  if (!object.is_object()) return fallback;
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : fallback;
}

bool json_bool(const json& object, const char* key, bool fallback) {
  if (!object.is_object()) return fallback;
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() ? it->get<bool>() : fallback;
}

const json* json_array(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? &*it : nullptr;
}

Result<Normalizer> normalizer_from_json(const json& section) {
  std::vector<Normalizer::Step> steps;
  std::size_t count = 0;
  QUIRE_RETURN_IF_ERROR(
      for_each_component(section, "normalizer", "normalizers", count,
                         [&steps](const json& component, const std::string& type) -> Status {
                           QUIRE_TRY(auto step, normalizer_step(component, type));
                           steps.push_back(std::move(step));
                           return Ok{};
                         }));
  return Normalizer(std::move(steps));
}

Result<JsonPretokenizer> pretokenizer_from_json(const json& section) {
  JsonPretokenizer out;
  std::vector<Pretokenizer::Step> steps;
  std::size_t count = 0;
  QUIRE_RETURN_IF_ERROR(
      for_each_component(section, "pre_tokenizer", "pretokenizers", count,
                         [&](const json& component, const std::string& type) -> Status {
                           // What follows would see the byte spelling in place of the text.
                           if (out.byte_level)
                             return unsupported_section("pre_tokenizer", type + " after ByteLevel");
                           if (type == "ByteLevel") {
                             out.byte_level = true;
                             return add_byte_level(component, steps);
                           }
                           QUIRE_TRY(auto step, pretokenizer_step(component, type));
                           steps.push_back(std::move(step));
                           return Ok{};
                         }));
  out.pretokenizer = Pretokenizer(std::move(steps));
  return out;
}

Result<JsonDecoder> decoder_from_json(const json& section) {
  JsonDecoder out;
  bool known = section.is_null();
  std::size_t count = 0;
  QUIRE_RETURN_IF_ERROR(for_each_component(
      section, "decoder", "decoders", count,
      [&](const json& component, const std::string& type) -> Status {
        const bool bars = type == "Metaspace" || type == "Replace";
        if (bars) out.spelling = TokenSpelling::kBars;
        known = known || bars || type == "ByteLevel";
        if (type == "Metaspace")
          out.strips_leading_space =
              json_string(component, "prepend_scheme", "always") != "never" &&
              json_bool(component, "add_prefix_space", true);
        if (type == "Replace") {
          QUIRE_TRY(const Pattern pattern, pattern_of(component, "decoder"));
          if (pattern.literal != kBar || json_string(component, "content") != " ")
            return unsupported_section("decoder",
                                       "Replace of anything but \xE2\x96\x81 by a space");
        }
        if (type == "Strip") {
          if (json_string(component, "content") != " " || component.value("start", 0) != 1 ||
              component.value("stop", 0) != 0)
            return unsupported_section("decoder", "Strip of anything but one leading space");
          out.strips_leading_space = true;
        }
        if (!bars && type != "ByteLevel" && type != "ByteFallback" && type != "Fuse" &&
            type != "Strip")
          return unsupported_section("decoder", type);
        return Ok{};
      }));
  if (!known) return unsupported_section("decoder", "a sequence without ByteLevel or Replace");
  return out;
}

Result<JsonPostProcessor> post_processor_from_json(const json& section, int vocab_size) {
  JsonPostProcessor out;
  std::size_t count = 0;
  QUIRE_RETURN_IF_ERROR(
      for_each_component(section, "post_processor", "processors", count,
                         [&](const json& component, const std::string& type) -> Status {
                           if (type == "ByteLevel")
                             return Ok{};  // only moves offsets, which we do not keep
                           if (type == "TemplateProcessing")
                             return template_ids(component, vocab_size, out);
                           return unsupported_section("post_processor", type);
                         }));
  return out;
}

}  // namespace quire
