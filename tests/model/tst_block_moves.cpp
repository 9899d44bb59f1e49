#include <cstring>

#include "engine/runner/direct_step.h"
#include "engine/runner/model_runner.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

constexpr int kBlockSize = 16, kBlocks = 12, kSwapBlocks = 5;

using Moves = std::vector<BlockMove>;

// One request of 41 tokens (three blocks, the last one part full) on a poisoned pool, whose blocks
// may be moved about between steps.
class Sequence {
 public:
  explicit Sequence(FlatModel& model)
      : runner_(ModelRunner::create(model, kBlocks, kBlockSize, 64, kSwapBlocks).value()),
        request_(RequestId{0}, prompt(), greedy()) {
    runner_->pool().poison();
  }

  // Moves, poisons every block outside the table, and computes `num_tokens` more.
  std::vector<float> run(const Moves& moves, const std::vector<int>& table, int num_tokens) {
    runner_->keep_all_logits();
    runner_->move_blocks(moves);
    const std::vector<std::byte> nan(runner_->pool().bytes_per_block(), std::byte{0xff});
    for (int block = 0; block < kBlocks; ++block)
      if (std::ranges::find(table, block) == table.end()) runner_->pool().write_block(block, nan);
    std::vector<BlockId> blocks;
    for (const int block : table) blocks.push_back(BlockId{block});
    const DirectEntry entry{&request_, num_tokens, blocks};
    run_direct_step(*runner_, {&entry, 1}, kBlockSize);
    return {runner_->last_logits().begin(), runner_->last_logits().end()};
  }

 private:
  static std::vector<TokenId> prompt() {
    std::vector<TokenId> ids;
    for (int i = 0; i < 41; ++i) ids.push_back((i * 37 + 11) % 250);
    return ids;
  }
  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0;
    params.seed = 0;
    return params;
  }

  std::unique_ptr<ModelRunner> runner_;
  Request request_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

class TestBlockMoves : public QObject {
  Q_OBJECT
 private slots:
  void movedBlocksGiveTheSameBits_data() {
    QTest::addColumn<QString>("backend");
    for (const char* backend : {"reference", "cpu", "cpu f32"}) QTest::newRow(backend) << backend;
  }
  // Each move happens between two chunks of the prompt or before a decode.
  void movedBlocksGiveTheSameBits() {
    QFETCH(QString, backend);
    auto tiny = test::make_tiny(test::make_backend(backend.toStdString()));
    Sequence still(*tiny.model);
    still.run({}, {0, 1, 2}, 20);
    const auto first = still.run({}, {0, 1, 2}, 21);
    const auto second = still.run({}, {0, 1, 2}, 1);

    Sequence copied(*tiny.model);
    copied.run({}, {0, 1, 2}, 20);
    QVERIFY(same_bits(
        copied.run({{MoveKind::kCopy, 1, 11}, {MoveKind::kCopy, 0, 7}}, {7, 11, 3}, 21), first));
    QVERIFY(same_bits(copied.run({{MoveKind::kCopy, 3, 0, 9}}, {7, 11, 0}, 1), second));

    Sequence swapped(*tiny.model);
    swapped.run({}, {4, 5, 6}, 20);
    swapped.run({}, {4, 5, 6}, 20);
    const Moves out{
        {MoveKind::kSwapOut, 4, 4}, {MoveKind::kSwapOut, 5, 0}, {MoveKind::kSwapOut, 6, 2}};
    const Moves in{
        {MoveKind::kSwapIn, 4, 10}, {MoveKind::kSwapIn, 0, 1}, {MoveKind::kSwapIn, 2, 11}};
    Moves there_and_back = out;
    // A block that has left is someone else's before it returns.
    there_and_back.push_back({MoveKind::kCopy, 9, 4});
    there_and_back.insert(there_and_back.end(), in.begin(), in.end());
    QVERIFY(same_bits(swapped.run(there_and_back, {10, 1, 11}, 1), first));
    QVERIFY(same_bits(
        swapped.run({{MoveKind::kSwapOut, 1, 1}, {MoveKind::kSwapIn, 1, 5}}, {10, 5, 11}, 1),
        second));
  }

  void movesAreMadeInOrder() {
    auto tiny = test::make_tiny(test::make_backend("cpu"));
    const auto runner = ModelRunner::create(*tiny.model, 3, kBlockSize, 64, 1).value();
    KvPool& pool = runner->pool();
    const std::vector<std::byte> a(pool.bytes_per_block(), std::byte{1});
    const std::vector<std::byte> b(pool.bytes_per_block(), std::byte{2});
    pool.write_block(0, a);
    pool.write_block(1, b);
    // An exchange through host memory, in the presence of a bystander.
    pool.write_block(2, b);
    const Moves exchange{
        {MoveKind::kSwapOut, 0, 0}, {MoveKind::kCopy, 1, 0}, {MoveKind::kSwapIn, 0, 1}};
    QVERIFY(runner->move_blocks(exchange) >= 0);
    std::vector<std::byte> read(pool.bytes_per_block());
    for (const auto& [block, expected] : {std::pair{0, b}, {1, a}, {2, b}}) {
      pool.read_block(block, read);
      QVERIFY(read == expected);
    }
  }

  void swappingIsMeasuredWhereItIsPossible() {
    auto tiny = test::make_tiny(test::make_backend("cpu"));
    const auto with = ModelRunner::create(*tiny.model, 8, kBlockSize, 64, 4).value();
    QVERIFY(with->swap_us_per_block() > 0);
    QCOMPARE(with->num_swap_blocks(), 4);
    const auto without = ModelRunner::create(*tiny.model, 8, kBlockSize, 64).value();
    QCOMPARE(without->swap_us_per_block(), 0.0);
    QCOMPARE(without->num_swap_blocks(), 0);
  }

  void aHostPoolBeyondTheMachineIsRefused() {
    auto tiny = test::make_tiny(make_reference_backend());
    const auto runner = ModelRunner::create(*tiny.model, 4, kBlockSize, 64, 2'000'000'000);
    QVERIFY(!runner.ok());
    QCOMPARE(runner.error().code, ErrorCode::kOutOfMemory);
    QVERIFY(runner.error().message.find("2000000000 more to swap to") != std::string::npos);
    QCOMPARE(ModelRunner::create(*tiny.model, 4, kBlockSize, 64, -1).error().code,
             ErrorCode::kInvalidArgument);
  }
};

QUIRE_TEST(TestBlockMoves)
#include "tst_block_moves.moc"
