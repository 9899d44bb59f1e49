#include "engine/text/bpe_tokenizer.h"
#include "engine/text/byte_alphabet.h"

namespace quire {

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  StringPool texts;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_byte_spelling(spelling, static_cast<unsigned char>(byte));
    texts.push(spelling);
  }
  TokenizerParts parts;
  TokenId id = 256;
  for (const char* control : {"<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"}) {
    texts.push(control);
    parts.added.push_back({.id = id++, .content = control, .special = true});
  }
  parts.vocabulary = Vocabulary(std::move(texts));
  parts.bpe.byte_level = true;
  parts.bos_id = 256;
  parts.eos_id = 257;
  return make_bpe_tokenizer(std::move(parts));
}

}  // namespace quire
