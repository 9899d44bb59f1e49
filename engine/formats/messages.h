#pragma once

#include <string>
#include <string_view>

namespace quire {

// Pieces of sentences about untrusted files. All results are valid UTF-8 on one line.

// 'text' with control characters and invalid UTF-8 shown as '?', cut at about 80 bytes.
std::string in_quotes(std::string_view text);
// The last component of a path, quoted.
std::string quoted_file_name(std::string_view path);

// A Git LFS pointer stands in a repository for a large file that was not fetched.
bool is_lfs_pointer(std::string_view bytes);
// Whether the first bytes are those of some other kind of file (a zip archive, a web page, GGUF).
bool is_foreign_to_safetensors(std::string_view bytes);

// "'x' is a web page, not a GGUF file." with `wanted` "a GGUF file"; an LFS pointer gets advice.
std::string wrong_kind_sentence(std::string_view label, std::string_view bytes,
                                std::string_view wanted);

}  // namespace quire
