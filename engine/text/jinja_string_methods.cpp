#include <algorithm>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_runtime.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

const std::string& self(Call& call) {
  return call.text(0).bytes();
}
Value whole(std::size_t value) {
  return static_cast<std::int64_t>(value);
}

Value strip(Call& call, bool left, bool right) {
  const Text* characters = call.given(1) == nullptr ? nullptr : &call.text(1);
  return call.runtime().text(trimmed(call.text(0), characters, left, right));
}
Value method_strip(Call& call) {
  return strip(call, true, true);
}
Value method_lstrip(Call& call) {
  return strip(call, true, false);
}
Value method_rstrip(Call& call) {
  return strip(call, false, true);
}

Value method_upper(Call& call) {
  return call.runtime().text(case_mapped(call.text(0), to_upper));
}
Value method_lower(Call& call) {
  return call.runtime().text(case_mapped(call.text(0), to_lower));
}
Value method_title(Call& call) {
  return call.runtime().text(title_cased(call.text(0)));
}
Value method_capitalize(Call& call) {
  return call.runtime().text(capitalized(call.text(0)));
}

Value method_replace(Call& call) {
  return call.runtime().text(
      replaced(call.runtime(), call.text(0), call.text(1), call.text(2), call.integer_or(3, -1)));
}

// The part of the string that optional start and stop arguments select, as byte offsets.
ByteRange window(Call& call, std::size_t start_index) {
  const std::string& bytes = self(call);
  const auto count = static_cast<std::int64_t>(character_count(bytes));
  const auto place = [&](std::size_t index, std::int64_t fallback) {
    std::int64_t at = call.given(index) == nullptr ? fallback : call.integer(index);
    if (at < 0) at = std::max<std::int64_t>(at + count, 0);
    return static_cast<std::size_t>(at);
  };
  const std::size_t start = place(start_index, 0), stop = place(start_index + 1, count);
  if (start > static_cast<std::size_t>(count) || start > stop) return {1, 0};
  return {character_offset(bytes, start), character_offset(bytes, stop)};
}

bool affix_matches(Call& call, std::string_view part, bool at_end) {
  const auto matches = [&](const Value& value) {
    if (value.text() == nullptr) call.refuse("needs a string or a tuple of strings");
    return at_end ? part.ends_with(value.text()->bytes()) : part.starts_with(value.text()->bytes());
  };
  const List* choices = call.at(1).list();
  if (choices == nullptr || choices->form != List::Form::kTuple) return matches(call.at(1));
  return std::any_of(choices->items.begin(), choices->items.end(), matches);
}

Value affix(Call& call, bool at_end) {
  const ByteRange range = window(call, 2);
  if (range.begin > range.end) return false;
  return affix_matches(
      call, std::string_view(self(call)).substr(range.begin, range.end - range.begin), at_end);
}
Value method_startswith(Call& call) {
  return affix(call, false);
}
Value method_endswith(Call& call) {
  return affix(call, true);
}

Value method_removeprefix(Call& call) {
  const Text& text = call.text(0);
  const bool matches = self(call).starts_with(call.text(1).bytes());
  return call.runtime().text(text.slice(matches ? call.text(1).size() : 0, text.size()));
}

Value method_removesuffix(Call& call) {
  const Text& text = call.text(0);
  const bool matches = self(call).ends_with(call.text(1).bytes());
  return call.runtime().text(text.slice(0, text.size() - (matches ? call.text(1).size() : 0)));
}

// Byte offset of the first or last occurrence within the window; npos: none.
std::size_t locate(Call& call, bool last) {
  const ByteRange range = window(call, 2);
  if (range.begin > range.end) return std::string::npos;
  const auto part = std::string_view(self(call)).substr(range.begin, range.end - range.begin);
  const std::size_t found =
      last ? part.rfind(call.text(1).bytes()) : part.find(call.text(1).bytes());
  return found == part.npos ? found : found + range.begin;
}

Value position(Call& call, bool last, bool must_exist) {
  call.runtime().charge(static_cast<std::int64_t>(self(call).size() / 64));
  const std::size_t found = locate(call, last);
  if (found != std::string::npos) {
    return whole(character_count(std::string_view(self(call)).substr(0, found)));
  }
  if (must_exist) call.refuse("did not find the text");
  return std::int64_t{-1};
}
Value method_find(Call& call) {
  return position(call, false, false);
}
Value method_rfind(Call& call) {
  return position(call, true, false);
}
Value method_index(Call& call) {
  return position(call, false, true);
}
Value method_rindex(Call& call) {
  return position(call, true, true);
}

Value method_count(Call& call) {
  const ByteRange range = window(call, 2);
  if (range.begin > range.end) return std::int64_t{0};
  const auto part = std::string_view(self(call)).substr(range.begin, range.end - range.begin);
  const std::string& needle = call.text(1).bytes();
  if (needle.empty()) return whole(character_count(part) + 1);
  std::size_t count = 0;
  for (std::size_t i = part.find(needle); i != part.npos;
       i = part.find(needle, i + needle.size())) {
    ++count;
  }
  return whole(count);
}

// Cuts the string at the given separators into a list.
Value pieces(Call& call, const std::vector<ByteRange>& ranges) {
  std::vector<Value> out;
  for (const ByteRange& range : ranges) {
    out.push_back(call.runtime().text(call.text(0).slice(range.begin, range.end)));
  }
  return call.runtime().list(std::move(out));
}

std::vector<ByteRange> split_at_space(std::string_view bytes, std::int64_t limit) {
  std::vector<ByteRange> out;
  std::size_t begin = skip_space(bytes, 0);
  while (begin < bytes.size()) {
    if (limit >= 0 && static_cast<std::int64_t>(out.size()) == limit) {
      out.push_back({begin, bytes.size()});
      break;
    }
    std::size_t end = begin;
    for (Character c; end < bytes.size(); end += c.length) {
      c = character_at(bytes, end);
      if (is_space(c.code)) break;
    }
    out.push_back({begin, end});
    begin = skip_space(bytes, end);
  }
  return out;
}

// White space has no direction, so only a limit makes a difference: what is left of the last split
// keeps its leading space.
std::vector<ByteRange> rsplit_at_space(std::string_view bytes, std::int64_t limit) {
  std::vector<ByteRange> all = split_at_space(bytes, -1);
  if (limit < 0 || static_cast<std::int64_t>(all.size()) <= limit) return all;
  const std::size_t joined = all.size() - static_cast<std::size_t>(limit);
  std::vector<ByteRange> out = {{0, all[joined - 1].end}};
  out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(joined), all.end());
  return out;
}

std::vector<ByteRange> split_at(std::string_view bytes, std::string_view separator,
                                std::int64_t limit) {
  std::vector<ByteRange> out;
  std::size_t begin = 0;
  while (limit < 0 || static_cast<std::int64_t>(out.size()) < limit) {
    const std::size_t found = bytes.find(separator, begin);
    if (found == bytes.npos) break;
    out.push_back({begin, found});
    begin = found + separator.size();
  }
  out.push_back({begin, bytes.size()});
  return out;
}

std::vector<ByteRange> rsplit_at(std::string_view bytes, std::string_view separator,
                                 std::int64_t limit) {
  std::vector<ByteRange> out;
  std::size_t end = bytes.size();
  while (limit < 0 || static_cast<std::int64_t>(out.size()) < limit) {
    if (end < separator.size()) break;
    const std::size_t found = bytes.rfind(separator, end - separator.size());
    if (found == bytes.npos) break;
    out.push_back({found + separator.size(), end});
    end = found;
  }
  out.push_back({0, end});
  std::reverse(out.begin(), out.end());
  return out;
}

Value split(Call& call, bool from_right) {
  const std::string& bytes = self(call);
  call.runtime().charge(static_cast<std::int64_t>(bytes.size() / 64));
  const std::int64_t limit = call.integer_or(2, -1);
  if (call.given(1) == nullptr) {
    return pieces(call, from_right ? rsplit_at_space(bytes, limit) : split_at_space(bytes, limit));
  }
  const std::string& separator = call.text(1).bytes();
  if (separator.empty()) call.refuse("needs a separator that is not empty");
  return pieces(
      call, from_right ? rsplit_at(bytes, separator, limit) : split_at(bytes, separator, limit));
}
Value method_split(Call& call) {
  return split(call, false);
}
Value method_rsplit(Call& call) {
  return split(call, true);
}

Value method_splitlines(Call& call) {
  std::vector<ByteRange> lines = line_ranges(self(call));
  if (call.flag_or(1, false)) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i].end = i + 1 < lines.size() ? lines[i + 1].begin : self(call).size();
    }
  }
  return pieces(call, lines);
}

Value partition(Call& call, bool last) {
  const Text& text = call.text(0);
  const Text& separator = call.text(1);
  if (separator.empty()) call.refuse("needs a separator that is not empty");
  const std::size_t found =
      last ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  std::vector<Value> parts;
  if (found == std::string::npos) {
    parts = {Value(Text()), Value(Text()), Value(Text())};
    parts[last ? 2 : 0] = call.at(0);
  } else {
    const std::size_t end = found + separator.size();
    parts = {text.slice(0, found), text.slice(found, end), text.slice(end, text.size())};
  }
  call.runtime().charge(static_cast<std::int64_t>(text.size() / 64));
  return call.runtime().list(std::move(parts), List::Form::kTuple);
}
Value method_partition(Call& call) {
  return partition(call, false);
}
Value method_rpartition(Call& call) {
  return partition(call, true);
}

Value method_join(Call& call) {
  Text out;
  bool first = true;
  for (const Value& item : call.runtime().iterate(call.at(1))) {
    if (item.text() == nullptr) call.refuse("can only join strings");
    if (!first) out.append(call.text(0));
    out.append(*item.text());
    call.runtime().check_size(out.size());
    call.runtime().charge(static_cast<std::int64_t>(call.text(0).size() / 64));
    first = false;
  }
  return call.runtime().text(std::move(out));
}

Value method_format(Call& call) {
  Invocation& raw = call.raw();
  return call.runtime().text(brace_format(call.runtime(), *raw.args.front().text(), raw, 1));
}

// Pads to a width in characters; `left` of the padding goes before the text.
Value padded(Call& call, std::size_t left, std::size_t pad, const Text& fill) {
  Text out;
  call.runtime().check_size(call.text(0).size() + pad * fill.size());
  call.runtime().charge(static_cast<std::int64_t>(pad / 16));
  for (std::size_t i = 0; i < left; ++i) out.append(fill);
  out.append(call.text(0));
  for (std::size_t i = left; i < pad; ++i) out.append(fill);
  return call.runtime().text(std::move(out));
}

std::size_t missing_width(Call& call) {
  const auto count = static_cast<std::int64_t>(character_count(self(call)));
  const std::int64_t width = call.integer(1);
  if (width <= count) return 0;
  call.runtime().check_size(static_cast<std::size_t>(width));
  return static_cast<std::size_t>(width - count);
}

Text fill_of(Call& call) {
  if (call.find(2) == nullptr) return Text(" ", Origin::kCaller);
  if (character_count(call.text(2).bytes()) != 1) call.refuse("needs one fill character");
  return call.text(2);
}

Value method_ljust(Call& call) {
  return padded(call, 0, missing_width(call), fill_of(call));
}
Value method_rjust(Call& call) {
  const std::size_t pad = missing_width(call);
  return padded(call, pad, pad, fill_of(call));
}
Value method_center(Call& call) {
  const std::size_t pad = missing_width(call);
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(call.integer(1), 0));
  return padded(call, pad / 2 + (pad & width & 1), pad, fill_of(call));
}

Value method_zfill(Call& call) {
  const std::size_t pad = missing_width(call);
  const Text& text = call.text(0);
  const bool sign = self(call).starts_with('-') || self(call).starts_with('+');
  Text out = text.slice(0, sign ? 1 : 0);
  out.append(std::string(pad, '0'), Origin::kCaller);
  out.append_slice(text, sign ? 1 : 0, text.size());
  return call.runtime().text(std::move(out));
}

template <typename Predicate>
bool all_characters(Call& call, Predicate predicate) {
  const std::string& bytes = self(call);
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = character_at(bytes, i);
    if (!predicate(c.code)) return false;
    i += c.length;
  }
  return !bytes.empty();
}

Value method_isdigit(Call& call) {
  return all_characters(call, is_digit);
}
Value method_isalpha(Call& call) {
  return all_characters(call, is_letter);
}
Value method_isspace(Call& call) {
  return all_characters(call, is_space);
}
Value method_isalnum(Call& call) {
  return all_characters(call, [](int code) { return is_letter(code) || is_digit(code); });
}

bool cased(Call& call, bool (*wanted)(int), bool (*other)(int)) {
  bool any = false;
  const bool none_other = all_characters(call, [&](int code) {
    any |= wanted(code);
    return !other(code);
  });
  return none_other && any;
}
Value method_isupper(Call& call) {
  return cased(call, is_upper, is_lower);
}
Value method_islower(Call& call) {
  return cased(call, is_lower, is_upper);
}

constexpr Builtin kMethods[] = {
    {"strip", "self chars", method_strip},
    {"lstrip", "self chars", method_lstrip},
    {"rstrip", "self chars", method_rstrip},
    {"upper", "self", method_upper},
    {"lower", "self", method_lower},
    {"casefold", "self", method_lower},
    {"title", "self", method_title},
    {"capitalize", "self", method_capitalize},
    {"replace", "self old new count", method_replace},
    {"startswith", "self prefix start end", method_startswith},
    {"endswith", "self suffix start end", method_endswith},
    {"removeprefix", "self prefix", method_removeprefix},
    {"removesuffix", "self suffix", method_removesuffix},
    {"find", "self sub start end", method_find},
    {"rfind", "self sub start end", method_rfind},
    {"index", "self sub start end", method_index},
    {"rindex", "self sub start end", method_rindex},
    {"count", "self sub start end", method_count},
    {"split", "self sep maxsplit", method_split},
    {"rsplit", "self sep maxsplit", method_rsplit},
    {"splitlines", "self keepends", method_splitlines},
    {"partition", "self sep", method_partition},
    {"rpartition", "self sep", method_rpartition},
    {"join", "self iterable", method_join},
    {"format", "*", method_format},
    {"ljust", "self width fillchar", method_ljust},
    {"rjust", "self width fillchar", method_rjust},
    {"center", "self width fillchar", method_center},
    {"zfill", "self width", method_zfill},
    {"isdigit", "self", method_isdigit},
    {"isdecimal", "self", method_isdigit},
    {"isnumeric", "self", method_isdigit},
    {"isalpha", "self", method_isalpha},
    {"isalnum", "self", method_isalnum},
    {"isspace", "self", method_isspace},
    {"isupper", "self", method_isupper},
    {"islower", "self", method_islower},
};

}  // namespace

std::span<const Builtin> string_methods() {
  return kMethods;
}

}  // namespace quire::jinja
