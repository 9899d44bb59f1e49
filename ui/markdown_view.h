#pragma once

#include <QTimer>
#include <QWidget>
#include <vector>

#include "ui/markdown_blocks.h"

class QVBoxLayout;

namespace quire {

// A Markdown text that may still be growing. Finished blocks are laid out once; while text streams
// in only the open tail is parsed again. Long finished texts are built piece by piece so that the
// window stays responsive.
class MarkdownView : public QWidget {
  Q_OBJECT
 public:
  explicit MarkdownView(QWidget* parent = nullptr);

  void setText(const QString& text);
  void append(const QString& text);
  void finish();  // no more text comes: shows what was held back
  const QString& text() const { return m_splitter.text(); }

 protected:
  void changeEvent(QEvent* event) override;

 private:
  // One widget and the blocks it shows: [firstBlock, lastBlock). Only prose spans several.
  struct Segment {
    MarkdownBlock::Kind kind;
    qsizetype firstBlock, lastBlock;
    qsizetype begin, length;  // of its source
    QWidget* widget;
  };

  void rebuild();
  void buildSome();
  void addFinished(qsizetype block);
  void showTail(qsizetype firstOpen);
  QWidget* makeWidget(MarkdownBlock::Kind kind);
  void fill(QWidget* widget, qsizetype firstBlock, qsizetype lastBlock);
  QString sourceOf(qsizetype firstBlock, qsizetype lastBlock) const;
  void removeTail();

  MarkdownSplitter m_splitter;
  QVBoxLayout* m_layout;
  std::vector<Segment> m_segments;  // finished blocks [0, m_finished)
  std::vector<Segment> m_tail;      // open blocks, one widget each
  qsizetype m_finished = 0;
  QTimer m_buildTimer;
  QTimer m_tableTimer;  // a long open table is redrawn rarely
};

}  // namespace quire
