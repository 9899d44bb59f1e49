#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written:
// printable Latin-1 bytes stand for themselves, the other 68 are U+0100, U+0101, ... in byte order
// (a space is U+0120 "Ġ").
void append_byte_spelling(std::string& out, unsigned char byte);
std::string spell_bytes(std::string_view bytes);

// The bytes a spelling stands for; nullopt when a character is outside the alphabet.
std::optional<std::string> unspell_bytes(std::string_view spelling);

}  // namespace quire
