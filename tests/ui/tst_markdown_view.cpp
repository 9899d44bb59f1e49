#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QLayout>
#include <QPlainTextEdit>
#include <QRandomGenerator>
#include <QTextBlock>
#include <QTextList>
#include <QToolButton>

#include "tests/support/test_main.h"
#include "ui/code_block.h"
#include "ui/markdown_view.h"
#include "ui/message_widget.h"
#include "ui/prose_document.h"
#include "ui/prose_view.h"

using namespace quire;

namespace {

// What a reader sees, widget by widget from the top.
QStringList shown(const MarkdownView& view) {
  QStringList parts;
  const QLayout* layout = view.layout();
  for (int i = 0; i < layout->count(); ++i) {
    QWidget* widget = layout->itemAt(i)->widget();
    if (auto* prose = qobject_cast<ProseView*>(widget)) {
      QStringList lines;
      for (QTextBlock block = prose->document()->begin(); block.isValid(); block = block.next()) {
        const QString mark = block.textList() != nullptr ? QStringLiteral("* ") : QString();
        lines << mark + QString(block.blockFormat().headingLevel(), QLatin1Char('#')) +
                     block.text();
      }
      parts << lines.join(QLatin1Char('\n'));
    } else if (auto* code = qobject_cast<CodeBlock*>(widget)) {
      parts << QStringLiteral("code:") + code->code();
    }
  }
  return parts;
}

const QString kAnswer = QStringLiteral(
    "# Head\n\nIntro with *emphasis* and `code`.\n\n- one\n- two\n\nThen:\n```py\nx = 1\n\ny = "
    "2\n```\nAfter.\n\n"
    "| a | b |\n|--|--|\n| 1 | 2 |\n\n\\[ x^2 \\]\n\nThe <end> of vector<int>.\n");

}  // namespace

class TestMarkdownView : public QObject {
  Q_OBJECT
 private slots:
  void streamedTextLooksLikeTheWhole();
  void copyGivesTheSource();
  void angleBracketsAreShown();
  void htmlIsNotInterpreted();
  void imagesLoadNothing();
  void codeCopyIsExact();
  void longTextIsBuiltPieceByPiece();
  void listNumbersAfterACodeBlockStay();
};

void TestMarkdownView::streamedTextLooksLikeTheWhole() {
  MarkdownView whole;
  whole.resize(500, 400);
  whole.setText(kAnswer);
  QRandomGenerator random(3);
  for (int round = 0; round < 8; ++round) {
    MarkdownView streamed;
    streamed.resize(500, 400);
    for (qsizetype at = 0; at < kAnswer.size();) {
      const qsizetype length = random.bounded(1, 12);
      streamed.append(kAnswer.mid(at, length));
      at += length;
    }
    streamed.finish();
    QTRY_COMPARE(shown(streamed), shown(whole));
    QCOMPARE(streamed.text(), kAnswer);
  }
}

void TestMarkdownView::copyGivesTheSource() {
  Message message;
  message.role = Role::Assistant;
  message.content = kAnswer;
  MessageWidget widget(message);
  for (QToolButton* button : widget.findChildren<QToolButton*>()) {
    if (button->accessibleName() == QStringLiteral("Copy message")) button->click();
  }
  QCOMPARE(QApplication::clipboard()->text(), kAnswer);
}

void TestMarkdownView::angleBracketsAreShown() {
  MarkdownView view;
  view.setText(QStringLiteral("<smirk> waffles ... vector<int>"));
  QCOMPARE(shown(view), QStringList{QStringLiteral("<smirk> waffles ... vector<int>")});
}

void TestMarkdownView::htmlIsNotInterpreted() {
  MarkdownView view;
  view.setText(QStringLiteral("a <b>bold</b> <img src=\"http://x/y.png\"> c"));
  QCOMPARE(shown(view),
           QStringList{QStringLiteral("a <b>bold</b> <img src=\"http://x/y.png\"> c")});
}

void TestMarkdownView::imagesLoadNothing() {
  const auto document = proseDocument(QStringLiteral("see ![a cat](file:///etc/hostname) here"),
                                      QApplication::font());
  QCOMPARE(document->toPlainText(),
           QStringLiteral("see [image: a cat, file:///etc/hostname] here"));
  QVERIFY(
      !document
           ->resource(QTextDocument::ImageResource, QUrl(QStringLiteral("file:///etc/hostname")))
           .isValid());
}

void TestMarkdownView::codeCopyIsExact() {
  MarkdownView view;
  const QString code = QStringLiteral("if x:\n\treturn  '<a>'\n\n    # end  ");
  view.setText(QStringLiteral("```py\n%1\n```\n").arg(code));
  auto* block = view.findChild<CodeBlock*>();
  QVERIFY(block != nullptr);
  for (QToolButton* button : block->findChildren<QToolButton*>()) button->click();
  QCOMPARE(QApplication::clipboard()->text(), code);
}

void TestMarkdownView::longTextIsBuiltPieceByPiece() {
  QString text;
  for (int i = 0; i < 3000; ++i) {
    text +=
        QStringLiteral("Paragraph %1 with **some** words in it to fill a line or two.\n\n").arg(i);
    if (i % 50 == 0) text += QStringLiteral("```c\nint x%1;\n```\n").arg(i);
  }
  MarkdownView view;
  view.resize(600, 400);
  view.setText(text);
  QTRY_VERIFY_WITH_TIMEOUT(shown(view).join(QString()).contains(QStringLiteral("Paragraph 2999")),
                           20000);
  QCOMPARE(view.findChildren<CodeBlock*>().size(), 60);
}

void TestMarkdownView::listNumbersAfterACodeBlockStay() {
  MarkdownView view;
  view.setText(QStringLiteral("1. do\n```\nx\n```\n2. then\n3. done\n"));
  const QStringList parts = shown(view);
  QVERIFY2(parts.last().contains(QStringLiteral("2. then")), qPrintable(parts.last()));
  QVERIFY(parts.last().contains(QStringLiteral("3. done")));
}

QUIRE_TEST(TestMarkdownView)
#include "tst_markdown_view.moc"
