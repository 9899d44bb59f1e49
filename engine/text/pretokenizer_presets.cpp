#include "engine/text/pretokenizer_presets.h"

#include <algorithm>
#include <initializer_list>

namespace quire {
namespace {

// Patterns as the families' tokenizer.json files have them (or, where a family has none, as
// llama.cpp reads the name), applied in order, each match isolated.
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|)"
    R"(\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kThreeDigits = R"(\p{N}{1,3})";
constexpr const char* kDeepseek3Cjk = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr const char* kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr const char* kNumber = R"(\p{N}+)";
constexpr const char* kFalconPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr const char* kTriple = R"([0-9][0-9][0-9])";
constexpr const char* kNewline = R"([\r\n])";
constexpr const char* kSpaceLetters = R"(\s?\p{L}+)";
constexpr const char* kSpacePunctuation = R"(\s?\p{P}+)";
constexpr const char* kDeepseekCjk = R"([一-龥ࠀ-一가-퟿]+)";

struct Row {
  std::initializer_list<std::string_view> names;
  std::initializer_list<const char*> patterns;
  bool nfc = false, ignore_merges = false, adds_bos = false;
};

const Row kRows[] = {
    {{"default"}, {kDefaultPunctuation, kGpt2, kNumber, kTriple}},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de",
      "roberta-bpe", "gigachat", "trillion"},
     {kGpt2}},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
     {kDigit, kGpt2}},
    {{"llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral"}, {kLlama3}, false, true, true},
    {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3}},
    {{"qwen2", "deepseek-r1-qwen"}, {kQwen2}, true},
    {{"deepseek-v3"}, {kThreeDigits, kDeepseek3Cjk, kDeepseek3}},
    {{"deepseek-llm", "deepseek-coder"},
     {kNewline, kSpaceLetters, kSpacePunctuation, kDeepseekCjk, kDigit}},
    {{"falcon"}, {kFalconPunctuation, kGpt2, kTriple}},
    {{"gpt-4o", "llama4"}, {kGpt4o}},
    {{"tekken"}, {kTekken}, false, true, true},
};

const Row* find_row(std::string_view name) {
  for (const Row& row : kRows)
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  return nullptr;
}

}  // namespace

Result<PretokenizerPreset> pretokenizer_preset(std::string_view name) {
  const Row* row = find_row(name);
  if (row == nullptr)
    return make_error(
        ErrorCode::kUnsupportedModel,
        "this model's pre-tokenizer \"" + std::string(name.substr(0, 64)) + "\" is not supported");
  std::vector<Pretokenizer::Step> steps;
  for (const char* pattern : row->patterns) {
    QUIRE_TRY(auto regex, Regex::compile(pattern));
    steps.push_back(Pretokenizer::Split{std::move(regex)});
  }
  PretokenizerPreset preset;
  preset.pretokenizer = Pretokenizer(std::move(steps));
  if (row->nfc) preset.normalizer = Normalizer({UnicodeForm::kNfc});
  preset.ignore_merges = row->ignore_merges;
  preset.adds_bos = row->adds_bos;
  return preset;
}

}  // namespace quire
