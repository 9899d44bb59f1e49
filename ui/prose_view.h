#pragma once

#include <QTextBrowser>

namespace quire {

// Read-only rich text as tall as its content, selectable and reachable by keyboard. Loads nothing
// named by the text; links open only on click, and only web and mail addresses.
class ProseView : public QTextBrowser {
  Q_OBJECT
 public:
  explicit ProseView(QWidget* parent = nullptr);

  // Markdown without HTML, already prepared (see preparedProse).
  void setProse(const QString& markdown);
  void setPlain(const QString& text);
  // A table: header first, every row as long as the header, cells in Markdown.
  void setTable(const QVector<QStringList>& rows, const QVector<Qt::Alignment>& alignments);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  QVariant loadResource(int type, const QUrl& name) override;
  void resizeEvent(QResizeEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  void adopt(QTextDocument* document);
  void fitHeight();

  bool m_scrollsSideways = false;
};

}  // namespace quire
