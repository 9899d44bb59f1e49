#include "tests/support/test_main.h"
#include "ui/theme.h"

using namespace quire;

class TestTheme : public QObject {
  Q_OBJECT
 private slots:
  void textContrastIsAtLeastFourAndAHalf_data();
  void textContrastIsAtLeastFourAndAHalf();
  void blackOnWhiteIsTwentyOne() {
    QVERIFY(qAbs(contrastRatio(Qt::black, Qt::white) - 21.0) < 1e-9);
  }
};

void TestTheme::textContrastIsAtLeastFourAndAHalf_data() {
  QTest::addColumn<QColor>("text");
  QTest::addColumn<QColor>("back");
  for (const Theme* theme : {&Theme::light(), &Theme::darkTheme()}) {
    const QByteArray mode = theme->dark ? "dark" : "light";
    const auto row = [&](const char* name, const QColor& text, const QColor& back) {
      QTest::newRow((mode + ' ' + name).constData()) << text << back;
    };
    const std::pair<const char*, QColor> backs[] = {
        {"window", theme->window},         {"panel", theme->panel},
        {"surface", theme->surface},       {"raised", theme->raised},
        {"info bar", theme->infoBack},     {"warning bar", theme->warningBack},
        {"danger bar", theme->dangerBack}, {"success bar", theme->successBack},
        {"code", theme->codeBackground}};
    for (const auto& [name, back] : backs)
      row((QByteArray("text on ") + name).constData(), theme->text, back);
    for (const auto& back :
         {theme->window, theme->panel, theme->surface, theme->raised, theme->codeBackground}) {
      row("muted", theme->textMuted, back);
    }
    for (const auto& back : {theme->surface, theme->raised, theme->window})
      row("link", theme->link, back);
    for (const auto& back : {theme->surface, theme->window}) {
      row("danger", theme->danger, back);
      row("warning", theme->warning, back);
      row("success", theme->success, back);
      row("info", theme->info, back);
    }
    row("accent", theme->accentText, theme->accent);
    for (const auto& text : {theme->syntaxKeyword, theme->syntaxString, theme->syntaxComment,
                             theme->syntaxNumber, theme->syntaxType, theme->syntaxFunction}) {
      row("syntax", text, theme->codeBackground);
    }
  }
}

void TestTheme::textContrastIsAtLeastFourAndAHalf() {
  QFETCH(QColor, text);
  QFETCH(QColor, back);
  QVERIFY2(contrastRatio(text, back) >= 4.5, qPrintable(QStringLiteral("%1 on %2: %3")
                                                            .arg(text.name(), back.name())
                                                            .arg(contrastRatio(text, back))));
}

QUIRE_TEST(TestTheme)
#include "tst_theme.moc"
