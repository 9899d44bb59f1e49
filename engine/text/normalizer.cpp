#include "engine/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/text/utf8.h"

namespace quire {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void append_decomposition(std::vector<utf8proc_int32_t>& out, char32_t code_point, bool compat) {
  utf8proc_int32_t buffer[32];  // the longest decomposition has 18 code points
  int last_boundclass = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compat ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point),
                                                          buffer, 32, options, &last_boundclass);
  if (length < 0 || length > 32) {
    out.push_back(static_cast<utf8proc_int32_t>(code_point));
  } else {
    out.insert(out.end(), buffer, buffer + length);
  }
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// utf8proc sorts marks by insertion, which is quadratic on a long run of them.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  for (auto it = text.begin(); it != text.end();) {
    const auto end =
        std::find_if(it, text.end(), [](utf8proc_int32_t c) { return combining_class(c) == 0; });
    std::stable_sort(it, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    });
    it = end == text.end() ? end : end + 1;
  }
}

// Calls visit(stretch, is_valid) over maximal valid and invalid stretches.
template <typename Visit>
void for_each_stretch(std::string_view text, const Visit& visit) {
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t begin = pos;
    const bool valid = read_utf8(text, pos).kind == Utf8Kind::kValid;
    while (pos < text.size()) {
      const Utf8Step step = read_utf8(text, pos);
      if ((step.kind == Utf8Kind::kValid) != valid) break;
      pos += step.length;
    }
    visit(text.substr(begin, pos - begin), valid);
  }
}

template <typename Function>
std::string map_valid(std::string_view text, const Function& function) {
  std::string out;
  for_each_stretch(text, [&](std::string_view stretch, bool valid) {
    if (valid) {
      out += function(stretch);
    } else {
      out += stretch;
    }
  });
  return out;
}

std::string replace_all(std::string_view text, const Normalizer::Replace& step) {
  std::string out;
  std::size_t pos = 0;
  for (std::size_t at; (at = text.find(step.from, pos)) != std::string_view::npos;) {
    out.append(text.substr(pos, at - pos)).append(step.to);
    pos = at + step.from.size();
  }
  return out.append(text.substr(pos));
}

std::string replace_matches(std::string_view text, const Normalizer::ReplaceRegex& step) {
  std::vector<Span> matches;
  step.pattern->find_all(text, matches);
  std::string out;
  std::size_t pos = 0;
  for (const Span& match : matches) {
    out.append(text.substr(pos, match.begin - pos)).append(step.to);
    pos = match.end;
  }
  return out.append(text.substr(pos));
}

struct ApplyStep {
  std::string_view text;

  std::string operator()(UnicodeForm form) const {
    return map_valid(text, [form](std::string_view part) { return to_unicode_form(part, form); });
  }
  std::string operator()(const Normalizer::Prepend& step) const {
    return text.empty() ? std::string() : step.text + std::string(text);
  }
  std::string operator()(const Normalizer::Replace& step) const { return replace_all(text, step); }
  std::string operator()(const Normalizer::ReplaceRegex& step) const {
    return map_valid(text, [&step](std::string_view part) { return replace_matches(part, step); });
  }
};

}  // namespace

std::string to_unicode_form(std::string_view text, UnicodeForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compat = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = read_utf8(text, pos);
    append_decomposition(code_points, step.code_point, compat);
    pos += step.length;
  }
  order_marks(code_points);
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) {
    const auto composed = utf8proc_normalize_utf32(
        code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    if (composed >= 0) code_points.resize(static_cast<std::size_t>(composed));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto code_point : code_points) append_utf8(out, static_cast<char32_t>(code_point));
  return out;
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) out = std::visit(ApplyStep{out}, step);
  return out;
}

}  // namespace quire
