#include "tests/core/harness.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

// Drafts `right` tokens of the true answer and then `wrong` others.
class ScriptedDrafter : public Drafter {
 public:
  ScriptedDrafter(const Harness& engine, int right, int wrong)
      : engine_(engine), right_(right), wrong_(wrong) {}
  std::vector<TokenId> propose(const Request& request) override {
    const auto truth = engine_.expected(index(request.id));
    std::vector<TokenId> drafts;
    for (int i = 0; i < right_ + wrong_; ++i) {
      const auto at = static_cast<std::size_t>(request.num_output_tokens() + i);
      const TokenId next = at < truth.size() ? truth[at] : 0;
      drafts.push_back(i < right_ ? next : (next + 1) % 101);
    }
    return drafts;
  }

 private:
  const Harness& engine_;
  int right_, wrong_;
};

}  // namespace

class TestDrafts : public QObject {
  Q_OBJECT
 private slots:
  void acceptedDraftsSaveSteps();
  void rejectedDraftsLeaveNothingBehind();
  void draftsNeverPassTheEnd();
  void aStopInsideTheDraftsEndsTheRequest();
  void draftsGoBeforeAnybodyIsPreempted();
  void theBudgetCutsDrafts();
  void aCancelledVerificationIsRepeated();
  void prefillsCarryNoDrafts();
};

void TestDrafts::acceptedDraftsSaveSteps() {
  Harness engine(small_config(64, 4));
  ScriptedDrafter drafter(engine, 3, 0);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 9, 13).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  // One step for the prompt and its token, then four tokens a step.
  QCOMPARE(engine.core.counters().steps, 4);
  QCOMPARE(engine.core.counters().accepted_draft_tokens, 9);
  QCOMPARE(plan_text(*engine.sink.records[1]), std::string("1:verify 4"));
}

void TestDrafts::rejectedDraftsLeaveNothingBehind() {
  Harness engine(small_config(64, 4));
  ScriptedDrafter drafter(engine, 1, 6);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 9, 20).ok());
  for (int i = 0; i < 5; ++i) {
    engine.step();
    const EngineSnapshot snapshot = engine.core.snapshot();
    const RequestView& request = snapshot.requests[0];
    QCOMPARE(request.num_computed_tokens, request.num_tokens - 1);
    QCOMPARE(static_cast<int>(request.block_table.size()), (request.num_computed_tokens + 3) / 4);
  }
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QVERIFY(engine.all_blocks_free());
}

void TestDrafts::draftsNeverPassTheEnd() {
  EngineConfig config = small_config(64, 4);
  config.max_model_len = 20;
  Harness engine(config);
  ScriptedDrafter drafter(engine, 9, 3);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 9, 5).ok());
  QVERIFY(engine.add(2, 9, -1, 50).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QCOMPARE(engine.answers[1].size(), std::size_t{5});
  QCOMPARE(engine.answers[2].size(), std::size_t{11});
}

void TestDrafts::aStopInsideTheDraftsEndsTheRequest() {
  Harness engine(small_config(64, 4));
  ScriptedDrafter drafter(engine, 8, 0);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 9, 12).ok());
  SamplingParams params;
  params.max_tokens = 12;
  params.stop_token_ids = {engine.expected(1)[4]};
  QVERIFY(engine.add(2, prompt_of(9), params).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QCOMPARE(engine.ended[2].reason, FinishReason::kStop);
  QVERIFY(engine.answers[2].size() <= 5);
}

void TestDrafts::draftsGoBeforeAnybodyIsPreempted() {
  EngineConfig config = small_config(6, 4);
  Harness engine(config);
  ScriptedDrafter drafter(engine, 7, 0);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 9, 3).ok());
  QVERIFY(engine.add(2, 9, 3, 50).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
  QCOMPARE(engine.core.counters().preemptions, 0);
}

void TestDrafts::theBudgetCutsDrafts() {
  EngineConfig config = small_config(64, 4);
  config.max_num_batched_tokens = 3;
  Harness engine(config);
  ScriptedDrafter drafter(engine, 7, 0);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 3, 9).ok());
  engine.step();
  engine.step();
  QCOMPARE(plan_text(engine.sink.last()), std::string("1:verify 3"));
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestDrafts::aCancelledVerificationIsRepeated() {
  Harness engine(small_config(64, 4));
  ScriptedDrafter drafter(engine, 2, 2);
  engine.core.set_drafter(&drafter);
  int launches = 0;
  engine.runner.fate = [&](const Batch&) {
    return ++launches % 2 == 0 ? FakeRunner::Fate::kCancel : FakeRunner::Fate::kRun;
  };
  QVERIFY(engine.add(1, 9, 20).ok());
  QVERIFY(engine.run());
  QVERIFY(engine.answers_match());
}

void TestDrafts::prefillsCarryNoDrafts() {
  EngineConfig config = small_config(64, 4);
  config.max_num_batched_tokens = 4;
  Harness engine(config);
  ScriptedDrafter drafter(engine, 3, 0);
  engine.core.set_drafter(&drafter);
  QVERIFY(engine.add(1, 10, 8).ok());
  for (int i = 0; i < 3; ++i) {
    engine.step();
    QCOMPARE(engine.sink.last().scheduled[0].kind, WorkKind::kPrefill);
  }
  engine.step();
  QCOMPARE(engine.sink.last().scheduled[0].kind, WorkKind::kVerify);
}

QUIRE_TEST(TestDrafts)
#include "tst_drafts.moc"
