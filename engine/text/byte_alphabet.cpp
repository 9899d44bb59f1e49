#include "engine/text/byte_alphabet.h"

#include <array>

#include "engine/text/utf8.h"

namespace quire {
namespace {

constexpr int kNumSpellings = 0x144;  // U+0000 .. U+0143

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<int, kNumSpellings> to_byte{};  // -1: not in the alphabet

  constexpr Alphabet() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
      const char32_t spelling = printable ? static_cast<char32_t>(byte) : next++;
      of_byte[static_cast<std::size_t>(byte)] = spelling;
      to_byte[spelling] = byte;
    }
  }
};

constexpr Alphabet kAlphabet;

}  // namespace

void append_byte_spelling(std::string& out, unsigned char byte) {
  append_utf8(out, kAlphabet.of_byte[byte]);
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_byte_spelling(out, static_cast<unsigned char>(byte));
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string out;
  for (std::size_t pos = 0; pos < spelling.size();) {
    const Utf8Step step = read_utf8(spelling, pos);
    if (step.kind != Utf8Kind::kValid || step.code_point >= kNumSpellings) return std::nullopt;
    const int byte = kAlphabet.to_byte[step.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    pos += step.length;
  }
  return out;
}

}  // namespace quire
