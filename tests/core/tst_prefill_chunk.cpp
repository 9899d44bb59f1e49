#include "tests/core/scheduler_bench.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

EngineConfig chunk_config() {
  EngineConfig config = config_of(2000, 4096, 16);
  return config;
}

// What each step gave to `request` until its prompt was done, with `act` called before each step.
template <typename Act>
std::vector<int> pieces(Bench& bench, const Request& request, Act act) {
  std::vector<int> sizes;
  while (request.num_output_tokens() == 0) {
    act(static_cast<int>(sizes.size()));
    bench.step();
    for (const ScheduledEntry& entry : bench.last.entries)
      if (entry.request == &request) sizes.push_back(entry.work.num_tokens);
  }
  return sizes;
}
std::vector<int> pieces(Bench& bench, const Request& request) {
  return pieces(bench, request, [](int) {});
}

}  // namespace

class TestPrefillChunk : public QObject {
  Q_OBJECT
 private slots:
  void resolvesAnExplicitChunkForBothStates();
  void besideADecodingStreamTheContendedChunkHolds();
  void aloneTheLargeChunkHolds();
  void theChunkGrowsWhenTheLastStreamEnds();
  void theChunkShrinksWhenAStreamBegins();
  void contendedPromptsShareOneStepsChunk();
  void everyBoundaryResumesTheSamePlan();
  void aHitOnACutLeavesTheLaterCutsUnchanged();
  void zeroTakesTheWholePrompt();
  void decodesAreNotLimited();
  void recomputesCountAsPrefill();
};

void TestPrefillChunk::resolvesAnExplicitChunkForBothStates() {
  QCOMPARE(PrefillChunkPolicy::resolve({}).chunk(false), 2048);
  QCOMPARE(PrefillChunkPolicy::resolve({}).chunk(true), 512);
  QCOMPARE(PrefillChunkPolicy::resolve(1024).chunk(false), 1024);
  QCOMPARE(PrefillChunkPolicy::resolve(1024).chunk(true), 1024);
  QCOMPARE(PrefillChunkPolicy::resolve(0).chunk(true), 0);
}

void TestPrefillChunk::besideADecodingStreamTheContendedChunkHolds() {
  Bench bench(chunk_config());
  bench.add(1, 4, 80);
  bench.step();
  const Request& prompt = bench.add(2, 1537);
  QCOMPARE(pieces(bench, prompt), (std::vector<int>{512, 512, 512, 1}));
}

void TestPrefillChunk::aloneTheLargeChunkHolds() {
  Bench bench(chunk_config());
  const Request& prompt = bench.add(2, 3000);
  QCOMPARE(pieces(bench, prompt), (std::vector<int>{2048, 952}));
}

void TestPrefillChunk::theChunkGrowsWhenTheLastStreamEnds() {
  Bench bench(chunk_config());
  Request& stream = bench.add(1, 4, 80);
  bench.step();
  const Request& prompt = bench.add(2, 5000);
  const auto act = [&](int done) {
    if (done == 1 && stream.status == RequestStatus::kRunning) bench.finish(stream);
  };
  QCOMPARE(pieces(bench, prompt, act), (std::vector<int>{512, 2048, 2048, 392}));
}

void TestPrefillChunk::theChunkShrinksWhenAStreamBegins() {
  Bench bench(chunk_config());
  const Request& prompt = bench.add(2, 4000);
  const auto act = [&](int done) {
    if (done == 1 && bench.requests.size() == 1) bench.add(3, 4, 80);
  };
  QCOMPARE(pieces(bench, prompt, act), (std::vector<int>{2048, 1952}));
  const Request& second = bench.add(4, 1100, 60);
  QCOMPARE(pieces(bench, second), (std::vector<int>{512, 512, 76}));
}

void TestPrefillChunk::contendedPromptsShareOneStepsChunk() {
  Bench bench(chunk_config());
  bench.add(1, 4, 80);
  bench.step();
  bench.add(2, 300, 3);
  bench.add(3, 300, 50);
  QCOMPARE(bench.step(),
           std::string("1:decode 1 | 2:prefill 300 | 3:prefill 212 | admit 2 | admit 3"));
  QVERIFY(bench.last.contended);
  QCOMPARE(bench.last.prefill_limit, 512);
  QCOMPARE(bench.last.prefill_left, 0);
}

void TestPrefillChunk::everyBoundaryResumesTheSamePlan() {
  EngineConfig config = chunk_config();
  config.enable_prefix_caching = false;
  config.prefill_chunk = PrefillChunkPolicy::resolve(512);
  Bench bench(config);
  const Request& prompt = bench.add(1, 3000);
  const std::vector<int> whole = pieces(bench, prompt);
  QCOMPARE(whole, (std::vector<int>{512, 512, 512, 512, 512, 440}));
  for (std::size_t done = 1; done < whole.size(); ++done) {
    Bench interrupted(config);
    const Request& again = interrupted.add(1, 3000);
    // Steps that were cancelled at every boundary leave the plan as it was.
    std::vector<int> rest = pieces(interrupted, again, [&](int step) {
      if (step == static_cast<int>(done)) interrupted.rolled_back_step();
    });
    QCOMPARE(std::vector<int>(rest.begin() + static_cast<std::ptrdiff_t>(done), rest.end()),
             std::vector<int>(whole.begin() + static_cast<std::ptrdiff_t>(done), whole.end()));
  }
}

void TestPrefillChunk::aHitOnACutLeavesTheLaterCutsUnchanged() {
  Bench bench(chunk_config());
  Request& cold = bench.add(1, 5000);
  QCOMPARE(pieces(bench, cold), (std::vector<int>{2048, 2048, 904}));
  bench.finish(cold);
  std::vector<TokenId> warm = prompt_of(5000);
  for (std::size_t i = 2048; i < warm.size(); ++i) warm[i] = (warm[i] + 1) % 101;
  const Request& hit = bench.add(2, warm);
  QCOMPARE(pieces(bench, hit), (std::vector<int>{2048, 904}));
  QCOMPARE(hit.num_cached_tokens, 2048);
}

void TestPrefillChunk::zeroTakesTheWholePrompt() {
  EngineConfig config = chunk_config();
  config.prefill_chunk = PrefillChunkPolicy::resolve(0);
  config.max_num_batched_tokens = 8000;
  Bench bench(config);
  bench.add(1, 4, 80);
  bench.step();
  const Request& prompt = bench.add(2, 7000);
  QCOMPARE(pieces(bench, prompt), (std::vector<int>{7000}));
}

void TestPrefillChunk::decodesAreNotLimited() {
  EngineConfig config = chunk_config();
  config.prefill_chunk = {4, 2};
  Bench bench(config);
  for (int id = 1; id <= 5; ++id) bench.add(id, 4, 10 * id);
  for (int i = 0; i < 30; ++i) bench.step();
  QCOMPARE(bench.step(),
           std::string("1:decode 1 | 2:decode 1 | 3:decode 1 | 4:decode 1 | 5:decode 1"));
}

void TestPrefillChunk::recomputesCountAsPrefill() {
  EngineConfig config = config_of(8, 64);
  config.enable_prefix_caching = false;
  config.prefill_chunk = {64, 2};
  Bench bench(config);
  bench.add(1, 15);
  Request& second = bench.add(2, 15, 50);
  for (int i = 0; i < 3; ++i) bench.step();
  QCOMPARE(second.status, RequestStatus::kPreempted);
  bench.finish(*bench.requests[0]);
  bench.add(3, 3, 80);
  bench.config.prefill_chunk = {8, 2};
  QCOMPARE(bench.step(), std::string("2:recompute 8 | admit 2"));
  QCOMPARE(bench.last.tokens.recomputed, 8);
}

QUIRE_TEST(TestPrefillChunk)
#include "tst_prefill_chunk.moc"
