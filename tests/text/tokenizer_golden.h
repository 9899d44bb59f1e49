#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/ids.h"

namespace quire::test {

// The corpus and the expected tokens that tests/tools/make_tokenizer_golden.py describes.
std::vector<std::string> read_corpus();
std::string long_line();  // 1 MiB without a space
std::uint32_t hash_ids(const std::vector<TokenId>& ids);

struct Golden {
  std::uint32_t hash = 0;
  std::vector<TokenId> ids;  // for some records only
};
std::vector<Golden> read_golden(const std::string& name);  // one more than the corpus: long_line

std::string read_file(const std::string& path);

// A vocabulary-only GGUF file with the tokenizer of a tokenizer.json. `pre` names the pre-tokenizer
// of a byte-level one; "" writes a SentencePiece-style one with scores that order tokens as the
// merges do. Empty on a file this cannot read.
std::string gguf_from_tokenizer_json(const std::string& json, const std::string& pre,
                                     bool add_space_prefix);

}  // namespace quire::test
