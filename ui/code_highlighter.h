#pragma once

#include <QSyntaxHighlighter>

namespace quire {

struct CodeLanguage;

// Light highlighting for the languages answers are usually written in: keywords, strings, comments,
// numbers. An unknown language stays plain. Colours follow the theme at the time of highlighting.
class CodeHighlighter : public QSyntaxHighlighter {
  Q_OBJECT
 public:
  CodeHighlighter(QTextDocument* document, const QString& language);
  ~CodeHighlighter() override;

  static bool knows(const QString& language);

 protected:
  void highlightBlock(const QString& text) override;

 private:
  qsizetype continueMultiline(const QString& text, qsizetype at);
  qsizetype highlightString(const QString& text, qsizetype at);
  qsizetype highlightWord(const QString& text, qsizetype at);
  qsizetype highlightNumber(const QString& text, qsizetype at);

  const CodeLanguage* m_language;
};

}  // namespace quire
