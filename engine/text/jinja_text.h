#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace quire::jinja {

// Where a byte came from: the template itself (and the model's own bos/eos strings), or the caller:
// messages, extra variables, and everything computed from them.
enum class Origin { kTemplate, kCaller };

// A string whose every byte remembers its origin. Concatenation, slicing and all string filters are
// built from `append_slice`, so the origin follows the bytes.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // The bytes from the template: sorted, disjoint, maximal.
  const std::vector<ByteRange>& template_ranges() const { return template_ranges_; }
  Origin origin_at(std::size_t position) const;
  // What this text costs to build, in bytes: its characters and its ranges.
  std::size_t cost() const { return bytes_.size() + template_ranges_.size() * sizeof(ByteRange); }

  void append(const Text& other) { append_slice(other, 0, other.size()); }
  void append(std::string_view bytes, Origin origin);
  // Bytes [begin, end) of `source`, which must not be *this.
  void append_slice(const Text& source, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;

 private:
  void add_template_range(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<ByteRange> template_ranges_;
};

}  // namespace quire::jinja
