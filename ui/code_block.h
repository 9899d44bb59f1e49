#pragma once

#include <QFrame>

class QLabel;
class QPlainTextEdit;
class QToolButton;

namespace quire {

class CodeHighlighter;

// A fenced code block: language, Copy button, and the code, as tall as its lines and scrolled
// sideways when long. Copy gives the code exactly.
class CodeBlock : public QFrame {
  Q_OBJECT
 public:
  explicit CodeBlock(QWidget* parent = nullptr);

  // Growing content is appended; anything else replaces what is there.
  void setCode(const QString& code, const QString& language);
  QString code() const { return m_code; }

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  void copy();
  void fitHeight();
  void applyTheme();

  QLabel* m_language;
  QToolButton* m_copy;
  QPlainTextEdit* m_edit;
  CodeHighlighter* m_highlighter = nullptr;
  QString m_code;
  QString m_name;
};

}  // namespace quire
