#pragma once

#include <QColor>
#include <QIcon>
#include <QPixmap>
#include <QString>

namespace quire {

// An icon drawn from the bundled SVG `name`.svg in the palette's text colour, so it follows the
// theme; where none is bundled, the desktop's icon theme is asked.
QIcon icon(const QString& name);

// The same icon as a square pixmap of `size` device-independent pixels in one colour.
QPixmap tinted(const QString& name, const QColor& color, int size, qreal devicePixelRatio);

// The program's own icon, in its own colours.
QIcon applicationIcon();

// Registers the bundled resources; needed before the first icon when linked as a library.
void initResources();

}  // namespace quire
