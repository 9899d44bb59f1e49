#pragma once

#include <QTextDocument>
#include <QVector>
#include <memory>

namespace quire {

// Documents made away from any view: parsing into a shown one would lay it out once per block.

// Markdown without HTML, styled with the current theme. Images become their description and
// address as text.
std::unique_ptr<QTextDocument> proseDocument(const QString& markdown, const QFont& font);
std::unique_ptr<QTextDocument> plainDocument(const QString& text, const QFont& font);
// At most kMaxTableRows rows; a line below tells of more.
std::unique_ptr<QTextDocument> tableDocument(const QVector<QStringList>& rows,
                                             const QVector<Qt::Alignment>& alignments,
                                             const QFont& font);
inline constexpr int kMaxTableRows = 400;

// A fixed-width font in proportion to `font`.
QFont monospaceFont(const QFont& font);

}  // namespace quire
