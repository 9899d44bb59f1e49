#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire {

// How the parts of a split model are named: <prefix>-00002-of-00003.gguf, numbered from 1.
struct GgufSplitName {
  std::string prefix;  // with its folder, when the path had one
  int number = 0;      // in [1, count]
  int count = 0;
};
std::optional<GgufSplitName> parse_split_name(std::string_view path);
std::string split_file_name(const std::string& prefix, int number, int count);

}  // namespace quire
