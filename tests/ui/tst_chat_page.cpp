#include <QAbstractButton>
#include <QApplication>
#include <QClipboard>
#include <QElapsedTimer>
#include <QInputMethodEvent>
#include <QLabel>
#include <QPlainTextEdit>
#include <QSignalSpy>
#include <QTemporaryDir>

#include "tests/support/test_main.h"
#include "tests/ui/fakes.h"
#include "ui/chat_list.h"
#include "ui/chat_page.h"
#include "ui/composer.h"
#include "ui/message_widget.h"
#include "ui/transcript_view.h"

using namespace quire;
using namespace quire::test;

namespace {

// A page over the real client, store and widgets, and a fake engine.
struct Bench {
  QTemporaryDir dir;
  std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();
  std::shared_ptr<FakeModel> model = host->makeReady();
  EngineClient client{host};
  ChatStore store{dir.filePath(QStringLiteral("chats.sqlite"))};
  ChatPage page{&client, &store};

  Bench() {
    page.resize(1000, 700);
    page.show();
  }
  FakeEngine& engine() { return model->fakeEngine; }
  QPlainTextEdit* input() { return page.composer()->findChild<QPlainTextEdit*>(); }
  void type(const QString& text) {
    page.composer()->setText(text);
    QTest::keyClick(input(), Qt::Key_Return);
  }
  const QVector<Message>& messages() { return page.session()->messages(); }
  // Sends a message and lets it be answered in full.
  void exchange(const QString& question, const std::string& answer) {
    const int request = engine().count();
    type(question);
    QTRY_COMPARE(engine().count(), request + 1);
    engine().sendText(request, answer);
    engine().finish(request, FinishReason::kStop);
    QTRY_VERIFY(!page.session()->answering());
  }
};

}  // namespace

class TestChatPage : public QObject {
  Q_OBJECT
 private slots:
  void enterSendsAndStatusIsThereAtOnce();
  void statusTellsQueueAndPrefill();
  void shiftEnterBreaksTheLine();
  void enterThatEndsACompositionDoesNotSend();
  void answerStreamsAndEndsWithFigures();
  void escapeStopsAndKeepsTheText();
  void regenerateReplacesAndCanBeUndone();
  void editAndResendReplacesWhatFollowed();
  void upInAnEmptyInputEditsTheLastMessage();
  void onlyTheTemplateMakesSpecialTokens();
  void tooLongChatSaysSoWithBothNumbers();
  void deviceFailureIsASentenceInline();
  void meterCountsConversationAndDraft();
  void answerGoesOnWhenAnotherChatIsChosen();
  void deletedChatComesBackOnUndo();
  void modelGoneMeansNoSending();
  void everyIconButtonHasAName();
};

void TestChatPage::enterSendsAndStatusIsThereAtOnce() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  // No event loop ran in between: the status does not wait for the engine.
  QCOMPARE(bench.messages().size(), 2);
  QVERIFY(!bench.page.session()->status().isEmpty());
  QVERIFY(bench.page.composer()->text().isEmpty());
  QTRY_COMPARE(bench.engine().count(), 1);
  QCOMPARE(bench.engine().at(0).request.label, std::string("chat"));
}

void TestChatPage::statusTellsQueueAndPrefill() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  QTRY_COMPARE(bench.engine().count(), 1);
  GenerationUpdate update;
  update.queue_position = 3;
  bench.engine().send(0, update);
  QTRY_COMPARE(bench.page.session()->status(), QStringLiteral("Queued behind 3 requests…"));
  update.state = GenerationState::kPrefill;
  update.num_prompt_tokens = 480;
  update.num_computed_tokens = 128;
  update.num_cached_tokens = 64;
  bench.engine().send(0, update);
  QTRY_COMPARE(bench.page.session()->status(),
               QStringLiteral("Prefill: 128 of 480 tokens, 64 cached…"));
  bench.engine().sendText(0, "Hi");
  QTRY_COMPARE(bench.page.session()->status(), QString());
}

void TestChatPage::shiftEnterBreaksTheLine() {
  Bench bench;
  bench.page.composer()->setText(QStringLiteral("a"));
  QTest::keyClick(bench.input(), Qt::Key_Return, Qt::ShiftModifier);
  QCOMPARE(bench.messages().size(), 0);
  QCOMPARE(bench.page.composer()->text(), QStringLiteral("a\n"));
}

void TestChatPage::enterThatEndsACompositionDoesNotSend() {
  Bench bench;
  bench.page.composer()->setText(QStringLiteral("a"));
  QInputMethodEvent composing(QStringLiteral("ni"), {});
  QApplication::sendEvent(bench.input(), &composing);
  QTest::keyClick(bench.input(), Qt::Key_Return);
  QCOMPARE(bench.messages().size(), 0);
}

void TestChatPage::answerStreamsAndEndsWithFigures() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  QTRY_COMPARE(bench.engine().count(), 1);
  bench.engine().sendText(0, "One ");
  bench.engine().sendText(0, "two");
  QTRY_COMPARE(bench.messages().last().content, QStringLiteral("One two"));
  bench.engine().finish(0, FinishReason::kLength);
  QTRY_COMPARE(bench.messages().last().state, MessageState::Complete);
  const QString footer = footerText(bench.messages().last());
  QVERIFY2(footer.contains(QStringLiteral("4.0 tok/s")), qPrintable(footer));
  QVERIFY(footer.contains(QStringLiteral("prompt 20, cached 16")));
  QVERIFY(footer.contains(QStringLiteral("length limit")));
  // The store has it too.
  QSignalSpy loaded(&bench.store, &ChatStore::chatLoaded);
  bench.store.requestChat(bench.page.session()->chatId());
  QTRY_COMPARE(loaded.size(), 1);
  QCOMPARE(loaded[0][1].value<Conversation>().messages.last().content, QStringLiteral("One two"));
}

void TestChatPage::escapeStopsAndKeepsTheText() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  QTRY_COMPARE(bench.engine().count(), 1);
  bench.engine().sendText(0, "Half an ans");
  QTRY_COMPARE(bench.messages().last().content, QStringLiteral("Half an ans"));
  QTest::keyClick(bench.input(), Qt::Key_Escape);
  QVERIFY(!bench.page.session()->answering());
  QCOMPARE(bench.messages().last().state, MessageState::Stopped);
  QTRY_VERIFY(bench.engine().at(0).aborted);
  bench.engine().sendText(0, "wer");
  bench.engine().finish(0, FinishReason::kAborted);
  QTest::qWait(40);
  QCOMPARE(bench.messages().last().content, QStringLiteral("Half an ans"));
}

void TestChatPage::regenerateReplacesAndCanBeUndone() {
  Bench bench;
  bench.exchange(QStringLiteral("Hello"), "First");
  bench.page.regenerate();
  QCOMPARE(bench.messages().size(), 2);
  QTRY_COMPARE(bench.engine().count(), 2);
  QCOMPARE(bench.engine().at(1).request.prompt_token_ids,
           bench.engine().at(0).request.prompt_token_ids);
  bench.engine().sendText(1, "Second");
  QTRY_COMPARE(bench.messages().last().content, QStringLiteral("Second"));
  bench.page.session()->undo();
  QCOMPARE(bench.messages().size(), 2);
  QCOMPARE(bench.messages().last().content, QStringLiteral("First"));
  QTRY_VERIFY(bench.engine().at(1).aborted);
}

void TestChatPage::editAndResendReplacesWhatFollowed() {
  Bench bench;
  bench.exchange(QStringLiteral("One"), "1");
  bench.exchange(QStringLiteral("Two"), "2");
  emit bench.page.transcript()->editWanted(0);
  QCOMPARE(bench.page.composer()->text(), QStringLiteral("One"));
  bench.type(QStringLiteral("Uno"));
  QCOMPARE(bench.messages().size(), 2);
  QCOMPARE(bench.messages()[0].content, QStringLiteral("Uno"));
  bench.page.session()->undo();
  QCOMPARE(bench.messages().size(), 4);
  QCOMPARE(bench.messages()[2].content, QStringLiteral("Two"));
}

void TestChatPage::upInAnEmptyInputEditsTheLastMessage() {
  Bench bench;
  bench.exchange(QStringLiteral("One"), "1");
  QTest::keyClick(bench.input(), Qt::Key_Up);
  QCOMPARE(bench.page.composer()->text(), QStringLiteral("One"));
  QVERIFY(bench.page.composer()->editing());
  QTest::keyClick(bench.input(), Qt::Key_Escape);
  QVERIFY(!bench.page.composer()->editing());
  QVERIFY(bench.page.composer()->text().isEmpty());
}

void TestChatPage::onlyTheTemplateMakesSpecialTokens() {
  Bench bench;
  bench.type(QStringLiteral("<|x|>"));
  QTRY_COMPARE(bench.engine().count(), 1);
  const auto ids = bench.engine().at(0).request.prompt_token_ids;
  QCOMPARE(std::count(ids.begin(), ids.end(), 300), 1);
}

void TestChatPage::tooLongChatSaysSoWithBothNumbers() {
  Bench bench;
  bench.type(QString(600, QLatin1Char('x')));
  QTRY_VERIFY(!bench.page.session()->answering());
  QCOMPARE(bench.messages().last().state, MessageState::Failed);
  const QString bar = bench.page.bars()->texts().join(QLatin1Char(' '));
  QVERIFY2(bar.contains(QStringLiteral("606")) && bar.contains(QStringLiteral("512")),
           qPrintable(bar));
}

void TestChatPage::deviceFailureIsASentenceInline() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  QTRY_COMPARE(bench.engine().count(), 1);
  bench.engine().finish(0, FinishReason::kError, "The device failed: out of luck.");
  QTRY_COMPARE(bench.messages().last().state, MessageState::Failed);
  bool shown = false;
  for (const QLabel* label : bench.page.transcript()->findChildren<QLabel*>()) {
    shown |=
        label->isVisible() && label->text() == QStringLiteral("The device failed: out of luck.");
  }
  QVERIFY(shown);
}

void TestChatPage::meterCountsConversationAndDraft() {
  Bench bench;
  QSignalSpy measured(&bench.client, &EngineClient::measured);
  bench.page.composer()->setText(QStringLiteral("12345"));
  QTRY_VERIFY(!measured.isEmpty());
  const auto size = measured.last()[0].value<PromptSize>();
  QCOMPARE(size.tokens, 1 + 5 + 5);  // the special token, "user:", the draft
  QCOMPARE(size.contextTokens, 512);
}

void TestChatPage::answerGoesOnWhenAnotherChatIsChosen() {
  Bench bench;
  bench.type(QStringLiteral("Hello"));
  QTRY_COMPARE(bench.engine().count(), 1);
  const QString first = bench.page.session()->chatId();
  bench.page.newChat();
  QVERIFY(bench.page.session()->chatId() != first);
  bench.engine().sendText(0, "meanwhile");
  bench.page.openChat(first);
  QTRY_COMPARE(bench.messages().last().content, QStringLiteral("meanwhile"));
  bench.page.newChat();
  bench.engine().finish(0, FinishReason::kStop);
  QSignalSpy loaded(&bench.store, &ChatStore::chatLoaded);
  QTest::qWait(40);
  bench.page.openChat(first);
  QTRY_COMPARE(loaded.size(), 1);
  QTRY_VERIFY(!bench.messages().isEmpty());
  QCOMPARE(bench.messages().last().content, QStringLiteral("meanwhile"));
  QCOMPARE(bench.messages().last().state, MessageState::Complete);
}

void TestChatPage::deletedChatComesBackOnUndo() {
  Bench bench;
  bench.exchange(QStringLiteral("Keep me"), "1");
  const QString id = bench.page.session()->chatId();
  bench.page.deleteChat(id);
  QCOMPARE(bench.page.list()->model()->rowCount(), 0);
  QVERIFY(bench.page.session()->chatId() != id);
  for (QAbstractButton* button : bench.page.bars()->findChildren<QAbstractButton*>()) {
    if (button->text() == QStringLiteral("Undo")) button->click();
  }
  QTRY_COMPARE(bench.page.list()->model()->rowCount(), 1);
  QTRY_COMPARE(bench.messages().size(), 2);
  QCOMPARE(bench.page.session()->title(), QStringLiteral("Keep me"));
}

void TestChatPage::modelGoneMeansNoSending() {
  Bench bench;
  HostStatus loading;
  loading.state = HostState::kLoading;
  bench.host->set(loading, nullptr);
  QTRY_VERIFY(bench.client.model() == nullptr);
  bench.type(QStringLiteral("Hello"));
  QCOMPARE(bench.messages().size(), 0);
  QCOMPARE(bench.page.composer()->text(), QStringLiteral("Hello"));
}

void TestChatPage::everyIconButtonHasAName() {
  Bench bench;
  bench.exchange(QStringLiteral("Hello"), "```cpp\nint x;\n```\n");
  for (const QAbstractButton* button : bench.page.findChildren<QAbstractButton*>()) {
    if (!button->text().isEmpty() || button->objectName().startsWith(QStringLiteral("qt_")))
      continue;
    if (button->inherits("QLineEditIconButton")) continue;
    QVERIFY2(!button->accessibleName().isEmpty(), button->metaObject()->className());
    QVERIFY(!button->toolTip().isEmpty());
  }
}

QUIRE_TEST(TestChatPage)
#include "tst_chat_page.moc"
