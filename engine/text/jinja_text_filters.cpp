#include <algorithm>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_json.h"
#include "engine/text/jinja_runtime.h"
#include "engine/text/jinja_unicode.h"

namespace quire::jinja {
namespace {

constexpr std::size_t kMaxIndent = 1024;

Text subject(Call& call) {
  return call.runtime().str(call.at(0));
}

Value filter_upper(Call& call) {
  return call.runtime().text(case_mapped(subject(call), to_upper));
}
Value filter_lower(Call& call) {
  return call.runtime().text(case_mapped(subject(call), to_lower));
}
Value filter_capitalize(Call& call) {
  return call.runtime().text(capitalized(subject(call)));
}
Value filter_string(Call& call) {
  return call.runtime().text(subject(call));
}

// "Safe" text is only text that would not be escaped for HTML, and nothing here ever is.
Value filter_safe(Call& call) {
  return call.runtime().text(subject(call));
}

Value filter_trim(Call& call) {
  const Text* characters = call.given(1) == nullptr ? nullptr : &call.text(1);
  return call.runtime().text(trimmed(subject(call), characters, true, true));
}

Value filter_replace(Call& call) {
  Runtime& runtime = call.runtime();
  const std::int64_t count = call.given(3) == nullptr ? -1 : call.integer(3);
  return runtime.text(
      replaced(runtime, subject(call), runtime.str(call.at(1)), runtime.str(call.at(2)), count));
}

// jinja2's own rule: words begin after white space and -({[<.
Value filter_title(Call& call) {
  const Text source = subject(call);
  Text out;
  bool starts_word = true;
  for (std::size_t i = 0; i < source.size();) {
    const Character c = character_at(source.bytes(), i);
    const bool separates =
        is_space(c.code) ||
        (c.code > 0 &&
         std::string_view("-({[<").find(static_cast<char>(c.code)) != std::string_view::npos &&
         c.code < 0x80);
    if (separates || c.code < 0) {
      out.append_slice(source, i, i + c.length);
    } else {
      std::string mapped;
      append_utf8(mapped, starts_word ? to_upper(c.code) : to_lower(c.code));
      out.append(mapped, source.origin_at(i));
    }
    starts_word = separates;
    i += c.length;
  }
  return call.runtime().text(std::move(out));
}

Value filter_escape(Call& call) {
  const Text source = subject(call);
  Text out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const char c = source.bytes()[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : "";
    if (entity.empty()) {
      out.append_slice(source, i, i + 1);
    } else {
      out.append(entity, source.origin_at(i));
    }
  }
  return call.runtime().text(std::move(out));
}

// An argument that is a number of spaces or the indentation itself.
Text indentation(Call& call, std::size_t argument, std::int64_t fallback) {
  const Value* width = call.find(argument);
  if (width != nullptr && width->text() != nullptr) return *width->text();
  const std::int64_t count = call.integer_or(argument, fallback);
  if (count > static_cast<std::int64_t>(kMaxIndent)) call.refuse("takes at most 1024 spaces");
  return Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' '),
              Origin::kCaller);
}

Value filter_indent(Call& call) {
  Runtime& runtime = call.runtime();
  Text source = subject(call);
  source.append("\n", Origin::kCaller);
  const Text indent = indentation(call, 1, 4);
  const bool first = call.flag_or(2, false), blank = call.flag_or(3, false);
  Text out;
  bool is_first = true;
  for (const ByteRange& line : line_ranges(source.bytes())) {
    runtime.check_size(out.size() + indent.size());
    if (!is_first) out.append("\n", Origin::kCaller);
    const bool wanted = is_first ? first : blank || line.begin != line.end;
    if (wanted) out.append(indent);
    out.append_slice(source, line.begin, line.end);
    is_first = false;
  }
  return runtime.text(std::move(out));
}

Value filter_format(Call& call) {
  Invocation& raw = call.raw();
  if (raw.args.empty()) call.refuse("needs a string");
  Runtime& runtime = call.runtime();
  const Text format = runtime.str(raw.args.front());
  if (!raw.kwargs.empty()) {
    if (raw.args.size() > 1) call.refuse("takes positional or named arguments, not both");
    Dict named;
    for (auto& [key, value] : raw.kwargs) named.set(Text(key, Origin::kTemplate), value);
    return runtime.text(percent_format(runtime, format, make_dict(std::move(named))));
  }
  raw.args.erase(raw.args.begin());
  return runtime.text(
      percent_format(runtime, format, make_list(std::move(raw.args), List::Form::kTuple)));
}

Value filter_center(Call& call) {
  const Text source = subject(call);
  const std::int64_t width = call.integer_or(1, 80);
  const auto count = static_cast<std::int64_t>(character_count(source.bytes()));
  if (width <= count) return source;
  call.runtime().check_size(static_cast<std::size_t>(width));
  const std::int64_t pad = width - count;
  const std::int64_t left = pad / 2 + (pad & width & 1);  // as Python's str.center
  Text out(std::string(static_cast<std::size_t>(left), ' '), Origin::kCaller);
  out.append(source);
  out.append(std::string(static_cast<std::size_t>(pad - left), ' '), Origin::kCaller);
  return call.runtime().text(std::move(out));
}

Value filter_wordcount(Call& call) {
  const Text source = subject(call);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t i = 0; i < source.size();) {
    const Character c = character_at(source.bytes(), i);
    const bool is_word = is_letter(c.code) || is_digit(c.code) || c.code == '_';
    words += is_word && !inside;
    inside = is_word;
    i += c.length;
  }
  return words;
}

Value filter_tojson(Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.flag_or(1, false);
  style.sort_keys = call.flag_or(4, false);
  if (call.given(2) != nullptr) {
    style.multiline = true;
    style.item_separator = ',';
    style.indent = indentation(call, 2, 0).bytes();
  }
  if (const Value* separators = call.given(3)) {
    const std::vector<Value> parts = call.runtime().iterate(*separators);
    if (parts.size() != 2 || parts[0].text() == nullptr || parts[1].text() == nullptr) {
      call.refuse("needs two strings for 'separators'");
    }
    style.item_separator = parts[0].text()->bytes();
    style.key_separator = parts[1].text()->bytes();
  }
  return call.runtime().text(Text(dump_json(call.runtime(), call.at(0), style), Origin::kCaller));
}

Value filter_from_json(Call& call) {
  call.runtime().charge(static_cast<std::int64_t>(call.text(0).size() / 16));
  return parse_json(call.text(0).bytes());
}

constexpr Builtin kFilters[] = {
    {"upper", "s", filter_upper},
    {"lower", "s", filter_lower},
    {"capitalize", "s", filter_capitalize},
    {"title", "s", filter_title},
    {"string", "s", filter_string},
    {"safe", "value", filter_safe},
    {"escape", "value", filter_escape},
    {"e", "value", filter_escape},
    {"trim", "value chars", filter_trim},
    {"replace", "s old new count", filter_replace},
    {"indent", "s width first blank", filter_indent},
    {"format", "*", filter_format},
    {"center", "value width", filter_center},
    {"wordcount", "s", filter_wordcount},
    {"tojson", "value ensure_ascii indent separators sort_keys", filter_tojson},
    {"from_json", "value", filter_from_json},
    {"fromjson", "value", filter_from_json},
};

}  // namespace

std::span<const Builtin> text_filters() {
  return kFilters;
}

std::vector<ByteRange> line_ranges(std::string_view bytes) {
  std::vector<ByteRange> lines;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const Character c = character_at(bytes, i);
    std::size_t end = i + c.length;
    const bool breaks = (c.code >= 0x0a && c.code <= 0x0d) || (c.code >= 0x1c && c.code <= 0x1e) ||
                        c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (breaks) {
      if (c.code == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
      lines.push_back({begin, i});
      begin = end;
    }
    i = end;
  }
  if (begin < bytes.size()) lines.push_back({begin, bytes.size()});
  return lines;
}

Text trimmed(const Text& text, const Text* characters, bool left, bool right) {
  const std::string& bytes = text.bytes();
  if (characters == nullptr) {
    const std::size_t end = right ? trim_end(bytes) : bytes.size();
    const std::size_t begin = left ? std::min(skip_space(bytes, 0), end) : 0;
    return text.slice(begin, end);
  }
  std::vector<std::string_view> set;
  const std::string& wanted = characters->bytes();
  for (std::size_t i = 0; i < wanted.size();) {
    const std::size_t length = character_at(wanted, i).length;
    set.push_back(std::string_view(wanted).substr(i, length));
    i += length;
  }
  std::size_t begin = 0, end = bytes.size();
  const auto strip_one = [&](bool at_end) {
    return std::any_of(set.begin(), set.end(), [&](std::string_view c) {
      if (end - begin < c.size()) return false;
      if (bytes.compare(at_end ? end - c.size() : begin, c.size(), c) != 0) return false;
      (at_end ? end : begin) += at_end ? -c.size() : c.size();
      return true;
    });
  };
  while (left && strip_one(false)) {
  }
  while (right && strip_one(true)) {
  }
  return text.slice(begin, end);
}

Text replaced(Runtime& runtime, const Text& text, const Text& from, const Text& to,
              std::int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  std::size_t position = 0;
  while (count != 0) {
    std::size_t found = bytes.find(from.bytes(), position);
    if (found == std::string::npos) break;
    runtime.check_size(out.size() + to.size());
    runtime.charge(static_cast<std::int64_t>(1 + to.size() / 64));
    out.append_slice(text, position, found);
    out.append(to);
    position = found + from.size();
    --count;
    if (!from.empty()) continue;
    // An empty needle is found before every character and at the end.
    if (found >= bytes.size()) return out;
    const std::size_t next = found + character_at(bytes, found).length;
    out.append_slice(text, found, next);
    position = next;
  }
  out.append_slice(text, position, bytes.size());
  return out;
}

Text case_mapped(const Text& text, int (*map)(int)) {
  Text out;
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text.bytes(), i);
    const int mapped = map(c.code);
    if (mapped == c.code) {
      out.append_slice(text, i, i + c.length);
    } else {
      std::string bytes;
      append_utf8(bytes, mapped);
      out.append(bytes, text.origin_at(i));
    }
    i += c.length;
  }
  return out;
}

Text title_cased(const Text& text) {
  Text out;
  bool after_letter = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = i + character_at(text.bytes(), i).length;
    out.append(case_mapped(text.slice(i, end), after_letter ? to_lower : to_title));
    after_letter = is_letter(character_at(text.bytes(), i).code);
    i = end;
  }
  return out;
}

Text capitalized(const Text& text) {
  if (text.empty()) return text;
  const std::size_t first = character_at(text.bytes(), 0).length;
  Text out = case_mapped(text.slice(0, first), to_title);
  out.append(case_mapped(text.slice(first, text.size()), to_lower));
  return out;
}

}  // namespace quire::jinja
