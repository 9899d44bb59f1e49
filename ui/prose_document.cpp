#include "ui/prose_document.h"

#include <QAbstractTextDocumentLayout>
#include <QFontDatabase>
#include <QFontMetricsF>
#include <QObject>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextDocumentFragment>
#include <QTextList>
#include <QTextTable>

#include "ui/theme.h"

namespace quire {
namespace {

constexpr qreal kLineHeightPercent = 128;
constexpr qreal kHeadingScale[] = {1.45, 1.28, 1.14, 1.05, 1.0, 1.0};
constexpr int kHeadingLevels = 6;
constexpr int kListIndent = 24;

// A document that fetches nothing.
class ClosedDocument : public QTextDocument {
 protected:
  QVariant loadResource(int, const QUrl&) override { return {}; }
};

std::unique_ptr<QTextDocument> emptyDocument(const QFont& font) {
  auto document = std::make_unique<ClosedDocument>();
  document->setUndoRedoEnabled(false);
  document->setDocumentMargin(0);
  document->setDefaultFont(font);
  document->setIndentWidth(kListIndent);
  return document;
}

struct Piece {
  int begin, end;
  QTextCharFormat format;
  int headingLevel;  // of its paragraph; 0 = none
};

QVector<Piece> piecesOf(const QTextDocument& document) {
  QVector<Piece> pieces;
  for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
    for (auto it = block.begin(); !it.atEnd(); ++it) {
      const QTextFragment fragment = it.fragment();
      if (!fragment.isValid()) continue;
      pieces.push_back({fragment.position(), fragment.position() + fragment.length(),
                        fragment.charFormat(), block.blockFormat().headingLevel()});
    }
  }
  return pieces;
}

void replaceImage(QTextCursor& cursor, const QTextImageFormat& image) {
  const QString alt = image.property(QTextFormat::ImageAltText).toString();
  const QString address = image.name();
  QTextCharFormat format;
  format.setForeground(Theme::current().textMuted);
  cursor.insertText(alt.isEmpty() ? QObject::tr("[image: %1]").arg(address)
                                  : QObject::tr("[image: %1, %2]").arg(alt, address),
                    format);
}

void styleCharacters(QTextDocument& document, const QFont& font) {
  const Theme& theme = Theme::current();
  const QFont mono = monospaceFont(font);
  QVector<Piece> pieces = piecesOf(document);
  // From the end, so that positions stay right when images are replaced.
  for (auto piece = pieces.crbegin(); piece != pieces.crend(); ++piece) {
    QTextCursor cursor(&document);
    cursor.setPosition(piece->begin);
    cursor.setPosition(piece->end, QTextCursor::KeepAnchor);
    if (piece->format.isImageFormat()) {
      replaceImage(cursor, piece->format.toImageFormat());
      continue;
    }
    QTextCharFormat format = piece->format;
    qreal size = font.pointSizeF();
    if (piece->headingLevel > 0) {
      size *= kHeadingScale[std::min(piece->headingLevel, kHeadingLevels) - 1];
      format.setFontWeight(QFont::DemiBold);
    }
    format.clearProperty(QTextFormat::FontSizeAdjustment);
    if (format.fontFixedPitch()) {
      format.setFontFamilies(mono.families());
      format.setFontPointSize(size * mono.pointSizeF() / font.pointSizeF());
      format.setBackground(theme.raised);
    } else if (piece->headingLevel > 0) {
      format.setFontPointSize(size);
    }
    if (format.isAnchor()) {
      format.setForeground(theme.link);
      format.setToolTip(format.anchorHref());
    }
    cursor.setCharFormat(format);
  }
}

void styleBlocks(QTextDocument& document, const QFont& font) {
  const qreal em = QFontMetricsF(font).height();
  for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
    QTextCursor cursor(block);
    QTextBlockFormat format;
    const int heading = block.blockFormat().headingLevel();
    const bool inList = block.textList() != nullptr;
    const bool last = !block.next().isValid();
    format.setLineHeight(kLineHeightPercent, QTextBlockFormat::ProportionalHeight);
    format.setTopMargin(heading > 0 && block != document.begin() ? em * 0.5 : 0);
    format.setBottomMargin(last ? 0 : inList ? em * 0.18 : em * (heading > 0 ? 0.3 : 0.55));
    if (inList && !last && block.next().textList() == nullptr) format.setBottomMargin(em * 0.55);
    if (block.blockFormat().intProperty(QTextFormat::BlockQuoteLevel) > 0) {
      format.setLeftMargin(em);
      QTextCharFormat muted;
      muted.setForeground(Theme::current().textMuted);
      QTextCursor all(block);
      all.movePosition(QTextCursor::EndOfBlock, QTextCursor::KeepAnchor);
      all.mergeCharFormat(muted);
    }
    cursor.mergeBlockFormat(format);
  }
}

QTextTableFormat tableFormat() {
  QTextTableFormat format;
  format.setBorder(1);
  format.setBorderCollapse(true);
  format.setBorderStyle(QTextFrameFormat::BorderStyle_Solid);
  format.setBorderBrush(Theme::current().border);
  format.setCellPadding(5);
  format.setCellSpacing(0);
  format.setHeaderRowCount(1);
  return format;
}

// Cells rarely hold markup; only those that may are parsed.
bool mayHoldMarkup(const QString& cell) {
  for (const QChar c : cell) {
    if (QStringView(u"*_`[\\~<&:").contains(c)) return true;
  }
  return false;
}

void fillCell(QTextTableCell cell, const QString& text, Qt::Alignment alignment, bool header,
              const QFont& font) {
  QTextCursor cursor = cell.firstCursorPosition();
  QTextBlockFormat block;
  block.setAlignment(alignment);
  cursor.setBlockFormat(block);
  if (mayHoldMarkup(text)) {
    cursor.insertFragment(QTextDocumentFragment(proseDocument(text, font).get()));
    cursor.mergeBlockFormat(block);
  } else {
    cursor.insertText(text);
  }
  QTextTableCellFormat format = cell.format().toTableCellFormat();
  if (header) {
    format.setBackground(Theme::current().raised);
    QTextCharFormat bold;
    bold.setFontWeight(QFont::DemiBold);
    QTextCursor all = cell.firstCursorPosition();
    all.setPosition(cell.lastCursorPosition().position(), QTextCursor::KeepAnchor);
    all.mergeCharFormat(bold);
    cell.setFormat(format);
  }
}

}  // namespace

QFont monospaceFont(const QFont& font) {
  QFont mono = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  mono.setPointSizeF(font.pointSizeF() > 0 ? font.pointSizeF() * 0.95 : 10);
  mono.setStyleHint(QFont::Monospace);
  return mono;
}

std::unique_ptr<QTextDocument> proseDocument(const QString& markdown, const QFont& font) {
  auto document = emptyDocument(font);
  document->setMarkdown(markdown,
                        QTextDocument::MarkdownFeatures(QTextDocument::MarkdownDialectGitHub |
                                                        QTextDocument::MarkdownNoHTML));
  styleCharacters(*document, font);
  styleBlocks(*document, font);
  return document;
}

std::unique_ptr<QTextDocument> plainDocument(const QString& text, const QFont& font) {
  auto document = emptyDocument(font);
  document->setPlainText(text);
  QTextCursor cursor(document.get());
  cursor.select(QTextCursor::Document);
  QTextBlockFormat format;
  format.setLineHeight(kLineHeightPercent, QTextBlockFormat::ProportionalHeight);
  cursor.mergeBlockFormat(format);
  return document;
}

std::unique_ptr<QTextDocument> tableDocument(const QVector<QStringList>& rows,
                                             const QVector<Qt::Alignment>& alignments,
                                             const QFont& font) {
  auto document = emptyDocument(font);
  if (rows.isEmpty() || rows.first().isEmpty()) return document;
  const int shown = std::min<int>(static_cast<int>(rows.size()), kMaxTableRows);
  const int columns = static_cast<int>(rows.first().size());
  QTextCursor cursor(document.get());
  cursor.beginEditBlock();
  QTextTable* table = cursor.insertTable(shown, columns, tableFormat());
  for (int row = 0; row < shown; ++row) {
    for (int column = 0; column < columns; ++column) {
      fillCell(table->cellAt(row, column), rows[row].value(column),
               alignments.value(column, Qt::AlignLeft), row == 0, font);
    }
  }
  cursor.endEditBlock();
  if (shown < rows.size()) {
    cursor.movePosition(QTextCursor::End);
    cursor.insertText(
        QObject::tr("%1 more rows are not shown; copying the message copies them all.")
            .arg(rows.size() - shown));
  }
  return document;
}

}  // namespace quire
