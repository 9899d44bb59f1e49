#pragma once

#include <QString>
#include <QStringList>
#include <QVector>

namespace quire {

// A piece of a Markdown text that is shown by a widget of its own.
struct MarkdownBlock {
  enum class Kind { Prose, Code, Math, Table };
  Kind kind = Kind::Prose;
  qsizetype begin = 0, end = 0;  // [begin, end) of the source
  bool closed = true;            // Code: its closing fence was seen
  QString language;              // Code: first word of the info string
  bool operator==(const MarkdownBlock&) const = default;
};

// Cuts a growing Markdown text into blocks, line by line. Blocks are adjacent and cover the text:
// nothing is dropped or changed, and the result depends only on the text, not on how it arrived.
// Prose blocks end at blank lines, except inside a list. The last block is
// open; so is the one before it while the last one is not certain to begin where it does (its first
// line is unfinished, say). All others are final.
class MarkdownSplitter {
 public:
  void append(QStringView text);
  void clear();

  const QString& text() const { return m_text; }
  const QVector<MarkdownBlock>& blocks() const { return m_blocks; }
  // Index of the first block changed or added by the last append.
  qsizetype firstChanged() const { return m_firstChanged; }
  QStringView source(const MarkdownBlock& block) const {
    return QStringView(m_text).mid(block.begin, block.end - block.begin);
  }

 private:
  QString m_text;
  QVector<MarkdownBlock> m_blocks;
  qsizetype m_firstChanged = 0;
};

// What a Code block's lines hold: no fences, the fence's indentation taken off, no final newline.
QString codeContent(QStringView source);
// A Math block's formula without its delimiters.
QString mathContent(QStringView source);
// A Table block's cells, header first, the delimiter row left out; every row has the header's
// length.
QVector<QStringList> tableCells(QStringView source);
// Column alignments of a Table block.
QVector<Qt::Alignment> tableAlignments(QStringView source);
// Prose made safe for Qt's Markdown reader: inline formulas become code spans, and ordered lists
// that do not begin at 1 keep their numbers.
QString preparedProse(QStringView source);

}  // namespace quire
