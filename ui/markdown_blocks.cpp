#include "ui/markdown_blocks.h"

#include <QRegularExpression>

namespace quire {
namespace {

using Kind = MarkdownBlock::Kind;

constexpr qsizetype kMaxFenceIndent = 12;  // fences inside nested lists are indented
constexpr qsizetype kMinFence = 3;

QStringView lineAt(QStringView text, qsizetype begin) {
  const qsizetype newline = text.indexOf(u'\n', begin);
  return text.mid(begin, newline < 0 ? -1 : newline - begin);
}

// Past the line's newline, or the end of the text.
qsizetype nextLine(QStringView text, qsizetype begin) {
  const qsizetype newline = text.indexOf(u'\n', begin);
  return newline < 0 ? text.size() : newline + 1;
}

bool isBlank(QStringView line) {
  return line.trimmed().isEmpty();
}

qsizetype indentOf(QStringView line) {
  qsizetype i = 0;
  while (i < line.size() && (line[i] == u' ' || line[i] == u'\t')) ++i;
  return i;
}

struct Fence {
  QChar mark;
  qsizetype length = 0, indent = 0;
  QStringView info;
  explicit operator bool() const { return length > 0; }
};

Fence openingFence(QStringView line) {
  Fence fence;
  fence.indent = indentOf(line);
  if (fence.indent > kMaxFenceIndent || fence.indent >= line.size()) return {};
  fence.mark = line[fence.indent];
  if (fence.mark != u'`' && fence.mark != u'~') return {};
  qsizetype i = fence.indent;
  while (i < line.size() && line[i] == fence.mark) ++i;
  fence.length = i - fence.indent;
  fence.info = line.mid(i).trimmed();
  // A backtick in the info string means a code span on one line.
  if (fence.length < kMinFence || (fence.mark == u'`' && fence.info.contains(u'`'))) return {};
  return fence;
}

bool closesFence(QStringView line, const Fence& fence) {
  if (indentOf(line) > fence.indent + 3) return false;
  const QStringView trimmed = line.trimmed();
  if (trimmed.size() < fence.length) return false;
  for (const QChar c : trimmed) {
    if (c != fence.mark) return false;
  }
  return true;
}

// The closing delimiter of a formula that begins on this line; empty if none does.
QStringView mathCloser(QStringView line) {
  const QStringView trimmed = line.trimmed();
  if (trimmed.startsWith(u"$$")) return u"$$";
  if (trimmed.startsWith(u"\\[")) return u"\\]";
  return {};
}

// Cells of a row: split at bars that are not escaped and not inside a code span.
QStringList cellsOf(QStringView line) {
  QStringList cells;
  QString cell;
  bool code = false;
  QStringView row = line.trimmed();
  if (row.startsWith(u'|')) row = row.mid(1);
  for (qsizetype i = 0; i < row.size(); ++i) {
    const QChar c = row[i];
    if (c == u'\\' && i + 1 < row.size() && row[i + 1] == u'|') {
      cell += u'|';
      ++i;
    } else if (c == u'|' && !code) {
      cells << cell.trimmed();
      cell.clear();
    } else {
      if (c == u'`') code = !code;
      cell += c;
    }
  }
  if (!cell.trimmed().isEmpty() || !row.endsWith(u'|')) cells << cell.trimmed();
  return cells;
}

bool isDelimiterRow(QStringView line) {
  if (!line.contains(u'-') || !line.contains(u'|')) return false;
  for (const QString& cell : cellsOf(line)) {
    QStringView marks = cell;
    if (marks.startsWith(u':')) marks = marks.mid(1);
    if (marks.endsWith(u':')) marks.chop(1);
    if (marks.isEmpty()) return false;
    for (const QChar c : marks) {
      if (c != u'-') return false;
    }
  }
  return true;
}

bool beginsTable(QStringView text, qsizetype begin) {
  const QStringView header = lineAt(text, begin);
  if (!header.contains(u'|')) return false;
  const qsizetype second = nextLine(text, begin);
  if (second >= text.size()) return false;
  const QStringView delimiter = lineAt(text, second);
  return isDelimiterRow(delimiter) && cellsOf(header).size() == cellsOf(delimiter).size();
}

// End of the formula beginning at `begin`; -1 when it does not end before a blank line.
qsizetype mathEnd(QStringView text, qsizetype begin) {
  const QStringView closer = mathCloser(lineAt(text, begin));
  if (closer.isEmpty()) return -1;
  for (qsizetype at = begin; at < text.size(); at = nextLine(text, at)) {
    const QStringView line = lineAt(text, at);
    const bool first = at == begin;
    const QStringView other = mathCloser(line);
    // Whatever else begins on a line ends the paragraph the formula would be in.
    if (!first && (openingFence(line) || beginsTable(text, at))) return -1;
    if (!first && !other.isEmpty() && other != closer) return -1;
    const QStringView trimmed = line.trimmed();
    if (trimmed.isEmpty()) return -1;
    if (trimmed.endsWith(closer) && !(first && trimmed.size() < 4)) return nextLine(text, at);
  }
  return -1;
}

bool isListItem(QStringView line) {
  const QStringView item = line.mid(indentOf(line));
  if (item.size() < 2) return false;
  if ((item[0] == u'-' || item[0] == u'*' || item[0] == u'+') && item[1].isSpace()) return true;
  qsizetype digits = 0;
  while (digits < item.size() && digits < 9 && item[digits] >= u'0' && item[digits] <= u'9') {
    ++digits;
  }
  return digits > 0 && digits + 1 < item.size() && (item[digits] == u'.' || item[digits] == u')') &&
         item[digits + 1].isSpace();
}

MarkdownBlock codeBlock(QStringView text, qsizetype begin, const Fence& fence) {
  MarkdownBlock block{Kind::Code, begin, text.size(), false, {}};
  block.language = fence.info.toString().section(QLatin1Char(' '), 0, 0);
  for (qsizetype at = nextLine(text, begin); at < text.size(); at = nextLine(text, at)) {
    if (!closesFence(lineAt(text, at), fence)) continue;
    block.end = nextLine(text, at);
    block.closed = true;
    break;
  }
  return block;
}

MarkdownBlock tableBlock(QStringView text, qsizetype begin) {
  qsizetype end = nextLine(text, nextLine(text, begin));
  while (end < text.size() && lineAt(text, end).contains(u'|')) end = nextLine(text, end);
  return {Kind::Table, begin, end, true, {}};
}

bool beginsOther(QStringView text, qsizetype at) {
  return openingFence(lineAt(text, at)) || beginsTable(text, at) || mathEnd(text, at) >= 0;
}

MarkdownBlock proseBlock(QStringView text, qsizetype begin) {
  bool inList = false, afterBlank = false;
  qsizetype at = begin;
  for (; at < text.size(); at = nextLine(text, at)) {
    const QStringView line = lineAt(text, at);
    if (isBlank(line)) {
      afterBlank = at > begin;
      continue;
    }
    if (at > begin) {
      if (beginsOther(text, at)) break;
      const bool continuesList = inList && (isListItem(line) || indentOf(line) >= 2);
      if (afterBlank && !continuesList) break;
    }
    inList = inList || isListItem(line);
    afterBlank = false;
  }
  return {Kind::Prose, begin, at, true, {}};
}

MarkdownBlock blockAt(QStringView text, qsizetype begin) {
  if (const Fence fence = openingFence(lineAt(text, begin))) return codeBlock(text, begin, fence);
  if (const qsizetype end = mathEnd(text, begin); end >= 0)
    return {Kind::Math, begin, end, true, {}};
  if (beginsTable(text, begin)) return tableBlock(text, begin);
  return proseBlock(text, begin);
}

// True while more text could still show that the block does not begin where it does, so that the
// one before it must be cut again too: its first line is unfinished, or what makes it a table or a
// formula is.
bool isUndecided(const MarkdownBlock& block, QStringView text) {
  const QStringView source = text.mid(block.begin, block.end - block.begin);
  if (block.kind == Kind::Table) return source.count(u'\n') < 2;
  if (block.kind == Kind::Math) return !source.endsWith(u'\n');
  return !source.contains(u'\n');
}

}  // namespace

void MarkdownSplitter::append(QStringView text) {
  if (!m_blocks.isEmpty()) {
    const bool both = isUndecided(m_blocks.last(), m_text);
    m_blocks.removeLast();
    if (both && !m_blocks.isEmpty()) m_blocks.removeLast();
  }
  m_text += text;
  m_firstChanged = m_blocks.size();
  qsizetype at = m_blocks.isEmpty() ? 0 : m_blocks.last().end;
  while (at < m_text.size()) {
    m_blocks.push_back(blockAt(m_text, at));
    at = m_blocks.last().end;
  }
}

void MarkdownSplitter::clear() {
  m_text.clear();
  m_blocks.clear();
  m_firstChanged = 0;
}

QString codeContent(QStringView source) {
  const Fence fence = openingFence(lineAt(source, 0));
  QString content;
  for (qsizetype at = nextLine(source, 0); at < source.size(); at = nextLine(source, at)) {
    const QStringView line = lineAt(source, at);
    if (closesFence(line, fence)) break;
    content += line.mid(std::min(fence.indent, indentOf(line)));
    content += u'\n';
  }
  if (content.endsWith(u'\n')) content.chop(1);
  return content;
}

QString mathContent(QStringView source) {
  QStringView formula = source.trimmed();
  return formula.mid(2, std::max<qsizetype>(formula.size() - 4, 0)).trimmed().toString();
}

QVector<QStringList> tableCells(QStringView source) {
  QVector<QStringList> rows;
  qsizetype line = 0;
  for (qsizetype at = 0; at < source.size(); at = nextLine(source, at), ++line) {
    if (line == 1 || isBlank(lineAt(source, at))) continue;
    QStringList cells = cellsOf(lineAt(source, at));
    if (!rows.isEmpty()) {
      while (cells.size() < rows.first().size()) cells << QString();
      cells = cells.mid(0, rows.first().size());
    }
    rows.push_back(cells);
  }
  return rows;
}

QVector<Qt::Alignment> tableAlignments(QStringView source) {
  QVector<Qt::Alignment> result;
  for (const QString& cell : cellsOf(lineAt(source, nextLine(source, 0)))) {
    const bool left = cell.startsWith(u':'), right = cell.endsWith(u':');
    result.push_back(right ? (left ? Qt::AlignHCenter : Qt::AlignRight) : Qt::AlignLeft);
  }
  return result;
}

namespace {

QString codeSpan(QStringView content) {
  qsizetype longest = 0, run = 0;
  for (const QChar c : content) {
    run = c == u'`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const QString ticks(longest + 1, u'`');
  return ticks + (longest > 0 ? QStringLiteral(" ") : QString()) + content.toString() +
         (longest > 0 ? QStringLiteral(" ") : QString()) + ticks;
}

// Length of a code span beginning at `at`, or of its opening backticks when it never closes.
qsizetype spanLength(QStringView text, qsizetype at) {
  qsizetype ticks = 0;
  while (at + ticks < text.size() && text[at + ticks] == u'`') ++ticks;
  for (qsizetype i = at + ticks; i < text.size();) {
    if (text[i] != u'`') {
      ++i;
      continue;
    }
    qsizetype run = 0;
    while (i + run < text.size() && text[i + run] == u'`') ++run;
    if (run == ticks) return i + run - at;
    i += run;
  }
  return ticks;
}

// End of a formula `$...$` beginning at `at`, or -1: no space inside the delimiters and no digit
// after the closing one, so that prices are left alone.
qsizetype dollarEnd(QStringView text, qsizetype at) {
  if (at + 2 >= text.size() || text[at + 1].isSpace() || text[at + 1] == u'$') return -1;
  for (qsizetype i = at + 2; i < text.size() && text[i] != u'\n'; ++i) {
    if (text[i] != u'$') continue;
    const bool digitAfter = i + 1 < text.size() && text[i + 1].isDigit();
    return text[i - 1].isSpace() || text[i - 1] == u'\\' || digitAfter ? -1 : i + 1;
  }
  return -1;
}

qsizetype inlineMathEnd(QStringView text, qsizetype at) {
  const QStringView rest = text.mid(at);
  for (const auto& [open, close] : {std::pair(u"\\(", u"\\)"), std::pair(u"\\[", u"\\]")}) {
    if (!rest.startsWith(QStringView(open))) continue;
    const qsizetype end = text.indexOf(QStringView(close), at + 2);
    const qsizetype blank = text.indexOf(u"\n\n", at);
    return end < 0 || (blank >= 0 && blank < end) ? -1 : end + 2;
  }
  return text[at] == u'$' ? dollarEnd(text, at) : -1;
}

QString protectFormulas(QStringView text) {
  QString result;
  result.reserve(text.size());
  for (qsizetype i = 0; i < text.size();) {
    if (text[i] == u'`') {
      const qsizetype length = spanLength(text, i);
      result += text.mid(i, length);
      i += length;
      continue;
    }
    if (const qsizetype end = inlineMathEnd(text, i); end > i) {
      result += codeSpan(text.mid(i, end - i));
      i = end;
      continue;
    }
    if (text[i] == u'\\' && i + 1 < text.size()) result += text[i++];
    result += text[i++];
  }
  return result;
}

// Qt 6.4 numbers every ordered list from 1. One that begins elsewhere (it goes on after a code
// block, say) becomes paragraphs with its numbers as text.
QString keepListNumbers(const QString& text) {
  static const QRegularExpression item(QStringLiteral("^( {0,3})(\\d{1,9})([.)])(\\s)"));
  qsizetype begin = 0;
  while (begin < text.size() && text[begin] == u'\n') ++begin;
  const QRegularExpressionMatch first = item.match(lineAt(text, begin).toString());
  if (!first.hasMatch() || first.capturedView(2).toInt() == 1) return text;
  QStringList lines = text.split(u'\n');
  for (QString& line : lines) {
    const QRegularExpressionMatch match = item.match(line);
    if (!match.hasMatch()) continue;
    line = u'\n' + match.captured(2) + u'\\' + line.mid(match.capturedStart(3));
  }
  return lines.join(u'\n');
}

}  // namespace

QString preparedProse(QStringView source) {
  return keepListNumbers(protectFormulas(source));
}

}  // namespace quire
