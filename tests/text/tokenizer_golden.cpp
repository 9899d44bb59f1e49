#include "tests/text/tokenizer_golden.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/text/tokenizer_json_reader.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

namespace quire::test {
namespace {

enum TokenType : std::int32_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Tokens {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

void place(Tokens& tokens, std::size_t id, std::string text, std::int32_t type) {
  if (tokens.texts.size() <= id) {
    tokens.texts.resize(id + 1);
    tokens.types.resize(id + 1, kUnused);
  }
  tokens.texts[id] = std::move(text);
  tokens.types[id] = type;
}

Tokens collect(const TokenizerJson& file, bool byte_fallback) {
  Tokens tokens;
  for (std::size_t i = 0; i < file.vocab_ids.size(); ++i) {
    const std::string text(file.vocab_texts[i]);
    const bool byte = byte_fallback && text.size() == 6 && text.starts_with("<0x");
    place(tokens, static_cast<std::size_t>(file.vocab_ids[i]), text, byte ? kByte : kNormal);
  }
  for (const auto& added : file.rest.at("added_tokens"))
    place(tokens, added.at("id"), added.at("content"),
          added.at("special") ? kControl : kUserDefined);
  return tokens;
}

std::vector<std::string> merge_lines(const StringPool& merges) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i + 1 < merges.size(); i += 2)
    lines.push_back(std::string(merges[i]) + " " + std::string(merges[i + 1]));
  return lines;
}

// The first merge that makes a token sets its place.
std::vector<float> scores_by_merge(const Tokens& tokens, const StringPool& merges) {
  StringPool pool;
  for (const std::string& text : tokens.texts) pool.push(text);
  const Vocabulary vocabulary(std::move(pool));
  std::vector<float> scores(tokens.texts.size(), -1e9F);
  for (std::size_t i = merges.size() / 2; i-- > 0;) {
    const TokenId id = vocabulary.find(std::string(merges[2 * i]) + std::string(merges[2 * i + 1]));
    scores[static_cast<std::size_t>(id)] = -static_cast<float>(i);
  }
  return scores;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  std::string bytes(in ? static_cast<std::size_t>(in.tellg()) : 0, '\0');
  in.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

std::vector<std::string> read_corpus() {
  std::ifstream in(fixture("text/data/tokenizer_corpus.bin"), std::ios::binary);
  std::vector<std::string> records;
  for (std::size_t size = 0; in >> size;) {
    in.get();
    std::string record(size, '\0');
    in.read(record.data(), static_cast<std::streamsize>(size));
    records.push_back(std::move(record));
  }
  return records;
}

std::string long_line() {
  std::uint64_t x = 1;
  std::string out;
  for (int i = 0; i < 1 << 20; ++i) {
    x = (x * 1103515245 + 12345) & 0x7FFFFFFF;
    out += "etaoinshrdlu"[(x >> 16) % 12];
  }
  return out;
}

std::uint32_t hash_ids(const std::vector<TokenId>& ids) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const TokenId id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      hash = (hash ^ ((static_cast<std::uint32_t>(id) >> shift) & 0xFF)) * 0x100000001B3;
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

std::vector<Golden> read_golden(const std::string& name) {
  std::ifstream in(fixture("text/data/" + name + ".golden"));
  std::vector<Golden> out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    Golden golden;
    fields >> std::hex >> golden.hash >> std::dec;
    golden.ids.assign(std::istream_iterator<TokenId>(fields), {});
    out.push_back(std::move(golden));
  }
  return out;
}

std::string gguf_from_tokenizer_json(const std::string& json, const std::string& pre,
                                     bool add_space_prefix) {
  const auto file = read_tokenizer_json(json);
  if (!file.ok()) return {};
  Tokens tokens = collect(*file, pre.empty());
  GgufWriter writer;
  writer.set("general.architecture", "llama");
  if (!pre.empty()) {
    writer.set("tokenizer.ggml.model", "gpt2").set("tokenizer.ggml.pre", pre);
    writer.set("tokenizer.ggml.merges", merge_lines(file->merges));
  } else {
    const auto unknown = std::find(tokens.texts.begin(), tokens.texts.end(), "<unk>");
    tokens.types[static_cast<std::size_t>(unknown - tokens.texts.begin())] = kUnknown;
    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.scores", scores_by_merge(tokens, file->merges));
    writer.set("tokenizer.ggml.add_space_prefix", add_space_prefix);
    writer.set("tokenizer.ggml.unknown_token_id",
               static_cast<std::uint32_t>(unknown - tokens.texts.begin()));
  }
  writer.set("tokenizer.ggml.tokens", tokens.texts);
  writer.set("tokenizer.ggml.token_type", tokens.types);
  return writer.finish();
}

}  // namespace quire::test
