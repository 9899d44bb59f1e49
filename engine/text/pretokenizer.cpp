#include "engine/text/pretokenizer.h"

#include <algorithm>

#include "engine/text/utf8.h"

namespace quire {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct Piece {
  Span span;
  bool valid = true;  // UTF-8
};

struct Run {
  Span span;
  bool is_match = false;
};

// The stretches between matches and the matches themselves, covering [0, size).
std::vector<Run> cover(const std::vector<Span>& matches, std::size_t size, bool invert) {
  std::vector<Run> runs;
  runs.reserve(matches.size() * 2 + 1);
  std::size_t pos = 0;
  for (const Span& match : matches) {
    if (match.begin > pos) runs.push_back({{pos, match.begin}, invert});
    runs.push_back({match, !invert});
    pos = match.end;
  }
  if (pos < size) runs.push_back({{pos, size}, invert});
  return runs;
}

void merge_with_previous(const std::vector<Run>& runs, std::vector<Span>& out) {
  bool after_match = false;
  const std::size_t first = out.size();
  for (const Run& run : runs) {
    if (run.is_match && !after_match && out.size() > first) {
      out.back().end = run.span.end;
    } else {
      out.push_back(run.span);
    }
    after_match = run.is_match;
  }
}

void merge_with_next(const std::vector<Run>& runs, std::vector<Span>& out) {
  bool before_match = false;
  const std::size_t first = out.size();
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (run->is_match && !before_match && out.size() > first) {
      out.back().begin = run->span.begin;
    } else {
      out.push_back(run->span);
    }
    before_match = run->is_match;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

void merge_equal(const std::vector<Run>& runs, std::vector<Span>& out) {
  const Run* previous = nullptr;
  for (const Run& run : runs) {
    if (previous != nullptr && previous->is_match == run.is_match) {
      out.back().end = run.span.end;
    } else {
      out.push_back(run.span);
    }
    previous = &run;
  }
}

void arrange(const std::vector<Run>& runs, SplitBehavior behavior, std::vector<Span>& out) {
  switch (behavior) {
    case SplitBehavior::kMergedWithPrevious:
      return merge_with_previous(runs, out);
    case SplitBehavior::kMergedWithNext:
      return merge_with_next(runs, out);
    case SplitBehavior::kContiguous:
      return merge_equal(runs, out);
    case SplitBehavior::kIsolated:
    case SplitBehavior::kRemoved:
      for (const Run& run : runs)
        if (behavior == SplitBehavior::kIsolated || !run.is_match) out.push_back(run.span);
  }
}

void find_literal(std::string_view text, std::string_view delimiter, std::vector<Span>& out) {
  std::size_t pos = 0;
  for (std::size_t at; (at = text.find(delimiter, pos)) != std::string_view::npos;) {
    pos = at + delimiter.size();
    out.push_back({at, pos});
  }
}

std::string replace_spaces(std::string_view text, std::string_view bar) {
  std::string out;
  for (const char c : text) c == ' ' ? out.append(bar) : out.append(1, c);
  return out;
}

// The pieces of one step become those of the next.
class Stage {
 public:
  Stage(std::string& text, std::vector<Piece>& pieces, bool at_text_start)
      : text_(text), pieces_(pieces), at_text_start_(at_text_start) {}

  void operator()(const Pretokenizer::Split& step) {
    split([&step](std::string_view piece,
                  std::vector<Span>& out) { step.pattern->find_all(piece, out); },
          step.behavior, step.invert);
  }
  void operator()(const Pretokenizer::SplitLiteral& step) {
    split([&step](std::string_view piece,
                  std::vector<Span>& out) { find_literal(piece, step.delimiter, out); },
          step.behavior, step.invert);
  }
  void operator()(const Pretokenizer::PrefixSpace&) {
    rewrite([](std::string_view piece, std::size_t) {
      return piece.front() == ' ' ? std::string(piece) : " " + std::string(piece);
    });
  }
  void operator()(const Pretokenizer::Metaspace& step) {
    using Prepend = Pretokenizer::Metaspace::Prepend;
    rewrite([&](std::string_view piece, std::size_t begin) {
      std::string out = replace_spaces(piece, step.bar);
      const bool wanted = step.prepend == Prepend::kAlways ||
                          (step.prepend == Prepend::kFirst && at_text_start_ && begin == 0);
      return wanted && !out.starts_with(step.bar) ? step.bar + out : out;
    });
    if (!step.split) return;
    split([&step](std::string_view piece,
                  std::vector<Span>& out) { find_literal(piece, step.bar, out); },
          SplitBehavior::kMergedWithNext, false);
  }

 private:
  template <typename Find>
  void split(const Find& find, SplitBehavior behavior, bool invert) {
    std::vector<Piece> next;
    std::vector<Span> matches, parts;
    for (const Piece& piece : pieces_) {
      if (!piece.valid) {
        next.push_back(piece);
        continue;
      }
      const std::size_t base = piece.span.begin;
      matches.clear();
      parts.clear();
      find(view(piece), matches);
      arrange(cover(matches, piece.span.end - base, invert), behavior, parts);
      for (const Span& part : parts)
        if (part.begin < part.end) next.push_back({{base + part.begin, base + part.end}, true});
    }
    pieces_ = std::move(next);
  }

  template <typename Rewrite>
  void rewrite(const Rewrite& function) {
    std::string out;
    for (Piece& piece : pieces_) {
      const std::size_t begin = out.size();
      if (piece.valid) {
        out += function(view(piece), piece.span.begin);
      } else {
        out += view(piece);
      }
      piece.span = {begin, out.size()};
    }
    text_ = std::move(out);
  }

  std::string_view view(const Piece& piece) const {
    return std::string_view(text_).substr(piece.span.begin, piece.span.end - piece.span.begin);
  }

  std::string& text_;
  std::vector<Piece>& pieces_;
  bool at_text_start_;
};

std::vector<Piece> stretches(std::string_view text) {
  std::vector<Piece> out;
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = read_utf8(text, pos);
    const bool valid = step.kind == Utf8Kind::kValid;
    if (out.empty() || out.back().valid != valid) out.push_back({{pos, pos}, valid});
    pos += step.length;
    out.back().span.end = pos;
  }
  return out;
}

}  // namespace

void Pretokenizer::apply(std::string& text, bool at_text_start, std::vector<Span>& pieces) const {
  pieces.clear();
  if (text.empty()) return;
  if (steps_.empty()) {
    pieces.push_back({0, text.size()});
    return;
  }
  std::vector<Piece> current = stretches(text);
  Stage stage(text, current, at_text_start);
  for (const Step& step : steps_) std::visit(stage, step);
  for (const Piece& piece : current) pieces.push_back(piece.span);
}

}  // namespace quire
