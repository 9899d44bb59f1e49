#include "ui/icons.h"

#include <QApplication>
#include <QFile>
#include <QIconEngine>
#include <QPainter>
#include <QPalette>
#include <QPixmap>
#include <QSvgRenderer>

static void initQuireResources() {
  Q_INIT_RESOURCE(quire);
}

namespace quire {
namespace {

QByteArray svg(const QString& name) {
  initResources();
  QFile file(QStringLiteral(":/icons/%1.svg").arg(name));
  return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

void render(QByteArray source, const QColor& color, QPainter& painter, const QRectF& rect) {
  source.replace("currentColor", color.name().toLatin1());
  QSvgRenderer renderer(source);
  painter.setRenderHint(QPainter::Antialiasing);
  renderer.render(&painter, rect);
}

class ThemedSvgEngine : public QIconEngine {
 public:
  explicit ThemedSvgEngine(QByteArray source) : m_svg(std::move(source)) {}

  void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State) override {
    render(m_svg, color(mode), *painter, rect);
  }

  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    QPixmap result(size);
    result.fill(Qt::transparent);
    QPainter painter(&result);
    paint(&painter, QRect(QPoint(0, 0), size), mode, state);
    return result;
  }

  QIconEngine* clone() const override { return new ThemedSvgEngine(m_svg); }

 private:
  static QColor color(QIcon::Mode mode) {
    const QPalette palette = QApplication::palette();
    if (mode == QIcon::Disabled) return palette.color(QPalette::Disabled, QPalette::ButtonText);
    if (mode == QIcon::Selected) return palette.color(QPalette::HighlightedText);
    return palette.color(QPalette::ButtonText);
  }

  QByteArray m_svg;
};

}  // namespace

void initResources() {
  initQuireResources();
}

QIcon icon(const QString& name) {
  QByteArray source = svg(name);
  if (source.isEmpty()) return QIcon::fromTheme(name);
  return QIcon(new ThemedSvgEngine(std::move(source)));
}

QPixmap tinted(const QString& name, const QColor& color, int size, qreal devicePixelRatio) {
  QPixmap result(QSizeF(size * devicePixelRatio, size * devicePixelRatio).toSize());
  result.setDevicePixelRatio(devicePixelRatio);
  result.fill(Qt::transparent);
  QPainter painter(&result);
  render(svg(name), color, painter, QRectF(0, 0, size, size));
  return result;
}

QIcon applicationIcon() {
  initResources();
  return QIcon(QStringLiteral(":/icons/io.github.quire.Quire.svg"));
}

}  // namespace quire
