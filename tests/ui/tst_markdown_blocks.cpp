#include <QRandomGenerator>

#include "tests/support/test_main.h"
#include "ui/markdown_blocks.h"

using namespace quire;

namespace {

// Blocks as text: a letter for the kind (C = closed code, c = open code), then the source.
QString shown(const QString& text) {
  MarkdownSplitter splitter;
  splitter.append(text);
  QStringList parts;
  for (const MarkdownBlock& block : splitter.blocks()) {
    QString mark;
    switch (block.kind) {
      case MarkdownBlock::Kind::Prose:
        mark = QStringLiteral("P");
        break;
      case MarkdownBlock::Kind::Code:
        mark =
            (block.closed ? QStringLiteral("C(%1)") : QStringLiteral("c(%1)")).arg(block.language);
        break;
      case MarkdownBlock::Kind::Math:
        mark = QStringLiteral("M");
        break;
      case MarkdownBlock::Kind::Table:
        mark = QStringLiteral("T");
        break;
    }
    parts << mark + QLatin1Char('[') + splitter.source(block).toString() + QLatin1Char(']');
  }
  return parts.join(QString());
}

}  // namespace

class TestMarkdownBlocks : public QObject {
  Q_OBJECT
 private slots:
  void cutsIntoBlocks_data();
  void cutsIntoBlocks();
  void sameBlocksHoweverTheTextArrives();
  void keepsEveryCharacter();
  void codeContentDropsFencesAndIndent();
  void tablesAreReadCellByCell();
  void formulasBecomeCodeSpans_data();
  void formulasBecomeCodeSpans();
  void listsKeepTheirNumbers();
};

void TestMarkdownBlocks::cutsIntoBlocks_data() {
  QTest::addColumn<QString>("text");
  QTest::addColumn<QString>("blocks");
  const auto row = [](const char* name, const char* text, const char* blocks) {
    QTest::newRow(name) << QString::fromUtf8(text) << QString::fromUtf8(blocks);
  };
  row("empty", "", "");
  row("one line", "Hello", "P[Hello]");
  row("paragraphs", "a\nb\n\nc", "P[a\nb\n\n]P[c]");
  row("fence", "a\n```py\nx = 1\n```\nb", "P[a\n]C(py)[```py\nx = 1\n```\n]P[b]");
  row("fence without newline", "```cpp", "c(cpp)[```cpp]");
  row("empty fence", "```\n```\n", "C()[```\n```\n]");
  row("longer fence holds a shorter one", "````\n```\nx\n```\n````\n",
      "C()[````\n```\nx\n```\n````\n]");
  row("tildes hold backticks", "~~~\n```\n~~~\n", "C()[~~~\n```\n~~~\n]");
  row("inline triple backticks are prose", "use ```x``` here", "P[use ```x``` here]");
  row("triple backticks closed on their line are prose", "```x``` here", "P[```x``` here]");
  row("fence in a list", "1. do\n   ```sh\n   ls\n   ```\n2. then",
      "P[1. do\n]C(sh)[   ```sh\n   ls\n   ```\n]P[2. then]");
  row("blank lines in code", "```\na\n\nb\n```\n", "C()[```\na\n\nb\n```\n]");
  row("unclosed fence takes the rest", "```\na\n\nb", "c()[```\na\n\nb]");
  row("loose list", "- a\n\n- b\n\n  more\n\nend", "P[- a\n\n- b\n\n  more\n\n]P[end]");
  row("table", "x\n| a | b |\n|---|:-:|\n| 1 | 2 |\nend",
      "P[x\n]T[| a | b |\n|---|:-:|\n| 1 | 2 |\n]P[end]");
  row("table with two dashes", "a|b\n--|--\n1|2", "T[a|b\n--|--\n1|2]");
  row("bar without delimiter row is prose", "a | b\nc", "P[a | b\nc]");
  row("formula", "so\n$$\na + b\n$$\nend", "P[so\n]M[$$\na + b\n$$\n]P[end]");
  row("formula on one line", "\\[ x^2 \\]\n", "M[\\[ x^2 \\]\n]");
  row("unclosed formula is prose", "$$ a\n\nb", "P[$$ a\n\n]P[b]");
  row("angle brackets are prose", "<smirk> vector<int>", "P[<smirk> vector<int>]");
}

void TestMarkdownBlocks::cutsIntoBlocks() {
  QFETCH(QString, text);
  QFETCH(QString, blocks);
  QCOMPARE(shown(text), blocks);
}

void TestMarkdownBlocks::sameBlocksHoweverTheTextArrives() {
  const QStringList pieces = {
      QStringLiteral("word "),     QStringLiteral("\n"),      QStringLiteral("\n\n"),
      QStringLiteral("```"),       QStringLiteral("```py\n"), QStringLiteral("- item\n"),
      QStringLiteral("  in\n"),    QStringLiteral("|"),       QStringLiteral("a | b\n"),
      QStringLiteral("--|--\n"),   QStringLiteral("|---"),    QStringLiteral("$$"),
      QStringLiteral("\\["),       QStringLiteral("\\]"),     QStringLiteral("1. x\n"),
      QStringLiteral("~~~\n"),     QStringLiteral("# h\n"),   QStringLiteral("`c`"),
      QStringLiteral("\U0001F600")};
  QRandomGenerator random(7);
  for (int round = 0; round < 1500; ++round) {
    QString text;
    const int count = random.bounded(1, 16);
    for (int i = 0; i < count; ++i) text += pieces[random.bounded(static_cast<int>(pieces.size()))];
    MarkdownSplitter whole;
    whole.append(text);
    MarkdownSplitter parts;
    QVector<MarkdownBlock> before;
    for (qsizetype at = 0; at < text.size();) {
      const qsizetype length = random.bounded(1, 5);
      parts.append(QStringView(text).mid(at, length));
      at += length;
      // Only the blocks said to have changed did.
      for (qsizetype i = 0; i < parts.firstChanged(); ++i) QCOMPARE(parts.blocks()[i], before[i]);
      before = parts.blocks();
    }
    QVERIFY2(parts.blocks() == whole.blocks(), qPrintable(text));
  }
}

void TestMarkdownBlocks::keepsEveryCharacter() {
  QRandomGenerator random(11);
  const QString alphabet = QStringLiteral("ab `~|-$\\[]*_#>\n\n\t1.é😀");
  for (int round = 0; round < 500; ++round) {
    QString text;
    for (int i = 0; i < 60; ++i)
      text += alphabet[random.bounded(static_cast<int>(alphabet.size()))];
    MarkdownSplitter splitter;
    for (const QChar c : text) splitter.append(QStringView(&c, 1));
    QString joined;
    qsizetype end = 0;
    for (const MarkdownBlock& block : splitter.blocks()) {
      QCOMPARE(block.begin, end);
      QVERIFY(block.end > block.begin);
      joined += splitter.source(block);
      end = block.end;
    }
    QCOMPARE(joined, text);
    QCOMPARE(splitter.text(), text);
  }
}

void TestMarkdownBlocks::codeContentDropsFencesAndIndent() {
  QCOMPARE(codeContent(u"```py\na\n  b\n```\n"), QStringLiteral("a\n  b"));
  QCOMPARE(codeContent(u"  ```\n  a\n    b\n c\n  ```"), QStringLiteral("a\n  b\nc"));
  QCOMPARE(codeContent(u"```\na\n\n"), QStringLiteral("a\n"));
  QCOMPARE(codeContent(u"```"), QString());
}

void TestMarkdownBlocks::tablesAreReadCellByCell() {
  const QStringView table = u"| a | b |\n|:--|--:|\n| `x|y` | 1\\|2 | more |\n| only |\n";
  const QVector<QStringList> expected = {{QStringLiteral("a"), QStringLiteral("b")},
                                         {QStringLiteral("`x|y`"), QStringLiteral("1|2")},
                                         {QStringLiteral("only"), QString()}};
  QCOMPARE(tableCells(table), expected);
  QCOMPARE(tableAlignments(table), (QVector<Qt::Alignment>{Qt::AlignLeft, Qt::AlignRight}));
}

void TestMarkdownBlocks::formulasBecomeCodeSpans_data() {
  QTest::addColumn<QString>("text");
  QTest::addColumn<QString>("prepared");
  const auto row = [](const char* name, const char* text, const char* prepared) {
    QTest::newRow(name) << QString::fromUtf8(text) << QString::fromUtf8(prepared);
  };
  row("parentheses", "so \\(a_1 * b_2\\) is", "so `\\(a_1 * b_2\\)` is");
  row("dollars", "if $x_1 < 2$ then", "if `$x_1 < 2$` then");
  row("prices", "costs $5 and $10 more", "costs $5 and $10 more");
  row("ranges of prices", "$5-$10", "$5-$10");
  row("unclosed", "open \\(a", "open \\(a");
  row("inside code", "`\\(a\\)`", "`\\(a\\)`");
  row("escaped", "\\$5$", "\\$5$");
}

void TestMarkdownBlocks::formulasBecomeCodeSpans() {
  QFETCH(QString, text);
  QFETCH(QString, prepared);
  QCOMPARE(preparedProse(text), prepared);
}

void TestMarkdownBlocks::listsKeepTheirNumbers() {
  QCOMPARE(preparedProse(u"1. a\n2. b"), QStringLiteral("1. a\n2. b"));
  QCOMPARE(preparedProse(u"\n4. a"), QStringLiteral("\n\n4\\. a"));
  QCOMPARE(preparedProse(u"2. a\n3. b"), QStringLiteral("\n2\\. a\n\n3\\. b"));
}

QUIRE_TEST(TestMarkdownBlocks)
#include "tst_markdown_blocks.moc"
