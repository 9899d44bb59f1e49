#include "engine/text/jinja_text.h"

#include <algorithm>
#include <utility>

namespace quire::jinja {
namespace {

// First range that ends after `position`.
auto range_after(const std::vector<ByteRange>& ranges, std::size_t position) {
  return std::upper_bound(ranges.begin(), ranges.end(), position,
                          [](std::size_t p, const ByteRange& range) { return p < range.end; });
}

}  // namespace

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::kTemplate) add_template_range(0, bytes_.size());
}

Origin Text::origin_at(std::size_t position) const {
  const auto range = range_after(template_ranges_, position);
  const bool inside = range != template_ranges_.end() && range->begin <= position;
  return inside ? Origin::kTemplate : Origin::kCaller;
}

void Text::append(std::string_view bytes, Origin origin) {
  const std::size_t begin = bytes_.size();
  bytes_.append(bytes);
  if (origin == Origin::kTemplate) add_template_range(begin, bytes_.size());
}

void Text::append_slice(const Text& source, std::size_t begin, std::size_t end) {
  const std::size_t base = bytes_.size();
  bytes_.append(source.bytes_, begin, end - begin);
  for (auto range = range_after(source.template_ranges_, begin);
       range != source.template_ranges_.end() && range->begin < end; ++range) {
    add_template_range(base + std::max(range->begin, begin) - begin,
                       base + std::min(range->end, end) - begin);
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out;
  out.append_slice(*this, begin, end);
  return out;
}

void Text::add_template_range(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!template_ranges_.empty() && template_ranges_.back().end == begin) {
    template_ranges_.back().end = end;
  } else {
    template_ranges_.push_back({begin, end});
  }
}

}  // namespace quire::jinja
