// tokenizer.json: loading never crashes; what loads encodes and decodes any text, gives ids inside
// the vocabulary, and control tokens only where they are allowed.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"
#include "engine/text/utf8.h"
#include "kernels/check.h"

namespace {

void check(const quire::Tokenizer& tokenizer, std::string_view text) {
  quire::EncodeOptions options;
  options.add_special = true;
  const auto ids = tokenizer.encode(text, options);
  for (const quire::TokenId id : ids)
    QUIRE_CHECK(id >= 0 && id < tokenizer.vocab_size(), id, tokenizer.vocab_size());
  QUIRE_CHECK(quire::is_valid_utf8(tokenizer.decode(ids)));
  quire::StreamDetokenizer stream(tokenizer);
  std::string streamed;
  for (const quire::TokenId id : ids) streamed += stream.push(id);
  QUIRE_CHECK(streamed + stream.finish() == tokenizer.decode(ids));

  options.add_special = false;
  options.specials = quire::EncodeOptions::Specials::kNowhere;
  const auto plain = tokenizer.encode(text, options);
  const auto unknown = [&](quire::TokenId id) { return tokenizer.is_control(id); };
  // The unknown token, often marked special, stands for text that has no other.
  const auto first = std::find_if(plain.begin(), plain.end(), unknown);
  if (first != plain.end())
    for (const quire::TokenId id : plain) QUIRE_CHECK(!unknown(id) || id == *first, id, *first);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = quire::tokenizer_from_json(bytes, {});
  if (!tokenizer.ok()) {
    QUIRE_CHECK(!tokenizer.error().message.empty());
    return 0;
  }
  for (const std::string_view text :
       {std::string_view("hello, <s>w\xC3\xB6rld</s> 123\n\n  x"), std::string_view("\xFF\xE2\x96"),
        bytes.substr(size - std::min<std::size_t>(size, 100))})
    check(**tokenizer, text);
  return 0;
}
