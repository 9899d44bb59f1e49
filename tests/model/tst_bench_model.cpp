#include <nlohmann/json.hpp>

#include "engine/runner/bench_model_text.h"
#include "tests/model/hooked_backend.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

// A batch as the backend saw it.
struct SeenStep {
  int num_tokens = 0;
  std::vector<int> seq_lens;
};

class SeeingBackend : public test::HookedBackend {
 public:
  SeeingBackend(std::unique_ptr<Backend> inner, std::vector<SeenStep>& seen)
      : HookedBackend(std::move(inner), [](const char*) {}), seen_(seen) {}
  void begin_step(const BatchView& batch) override {
    seen_.push_back({batch.num_tokens, {batch.seq_lens, batch.seq_lens + batch.num_reqs}});
    HookedBackend::begin_step(batch);
  }

 private:
  std::vector<SeenStep>& seen_;
};

ModelBenchOptions small_options() {
  ModelBenchOptions options;
  options.prompts = {8, 40};
  options.depths = {0, 50};
  options.parallel = {2, 3};
  options.parallel_depth = 33;
  options.shared_prefix = 70;
  options.shared_requests = {4};
  options.decode_tokens = 5;
  options.rounds = 3;
  return options;
}

// Three rounds of ten steps; of one stream, or `size` streams.
ModelBenchSeries timed(ModelBenchKind kind, int size, double step_ms) {
  ModelBenchSeries series;
  series.kind = kind;
  series.size = series.depth = size;
  series.tokens = series.steps = 10;
  series.seconds = {step_ms * 0.02, step_ms * 0.01, step_ms * 0.005};
  return series;
}

}  // namespace

class TestBenchModel : public QObject {
  Q_OBJECT
 private slots:
  void sizesComeInOrderWithEveryRound() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const auto result = run_model_bench(*tiny.model, small_options());
    QVERIFY2(result.ok(), result.ok() ? "" : result.error().message.c_str());
    std::vector<std::pair<ModelBenchKind, int>> sizes;
    for (const ModelBenchSeries& series : *result) {
      sizes.emplace_back(series.kind, series.size);
      QCOMPARE(series.seconds.size(), std::size_t{3});
      const Spread tok_s = rate(series);
      QVERIFY(tok_s.min > 0 && tok_s.min <= tok_s.median && tok_s.median <= tok_s.max);
    }
    const std::vector<std::pair<ModelBenchKind, int>> wanted = {
        {ModelBenchKind::kPrefill, 8},     {ModelBenchKind::kPrefill, 40},
        {ModelBenchKind::kDecode, 0},      {ModelBenchKind::kDecode, 50},
        {ModelBenchKind::kParallel, 2},    {ModelBenchKind::kParallel, 3},
        {ModelBenchKind::kSharedPrefix, 4}};
    QCOMPARE(sizes, wanted);
  }

  void theTimedStepsDoWhatIsSaid() {
    std::vector<SeenStep> seen;
    auto tiny =
        test::make_tiny(std::make_unique<SeeingBackend>(test::make_backend("cpu", 1), seen));
    const ModelBenchOptions options = small_options();
    const auto check = [&](const ModelBenchSeries& series) {
      const auto steps = static_cast<std::size_t>(series.steps);
      QVERIFY(seen.size() >= steps);
      const std::span<const SeenStep> timed = std::span(seen).last(steps);
      switch (series.kind) {
        case ModelBenchKind::kPrefill:
          QCOMPARE(series.tokens, series.size);
          QCOMPARE(series.cached_tokens, 0);
          QCOMPARE(steps, std::size_t{1});
          QCOMPARE(timed[0].num_tokens, series.size);
          QCOMPARE(timed[0].seq_lens, std::vector<int>{series.size});
          break;
        case ModelBenchKind::kDecode:
        case ModelBenchKind::kParallel: {
          const int streams = series.kind == ModelBenchKind::kDecode ? 1 : series.size;
          QCOMPARE(series.tokens, streams * options.decode_tokens);
          QCOMPARE(series.steps, options.decode_tokens);
          for (int i = 0; i < series.steps; ++i) {
            QCOMPARE(timed[i].num_tokens, streams);
            QCOMPARE(timed[i].seq_lens,
                     std::vector<int>(streams, std::max(1, series.depth) + 1 + i));
          }
          // All but the end of the context, which fills no block or is the token to compute.
          QCOMPARE(series.prompt_tokens, streams * std::max(1, series.depth));
          QCOMPARE(series.cached_tokens, streams * ((std::max(1, series.depth) - 1) / 16 * 16));
          break;
        }
        case ModelBenchKind::kSharedPrefix: {
          const int prompt = options.shared_prefix + kSharedOwnTokens;
          QCOMPARE(series.tokens, series.size * kSharedOutputTokens);
          QCOMPARE(series.prompt_tokens, series.size * prompt);
          // Computed by the first alone, and new in every round.
          QCOMPARE(series.cached_tokens, (series.size - 1) * (options.shared_prefix / 16 * 16));
          int computed = 0;
          for (const SeenStep& step : timed) computed += step.num_tokens;
          QCOMPARE(computed, series.prompt_tokens - series.cached_tokens +
                                 series.size * (kSharedOutputTokens - 1));
          break;
        }
      }
    };
    QVERIFY(run_model_bench(*tiny.model, options, {}, check).ok());
  }

  void aRoundWaitsForItsTurn() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    ModelBenchOptions options = small_options();
    options.shared_prefix = 0;
    int asked = 0, done = 0;
    const auto before = [&] {
      [&] { QCOMPARE(asked, done); }();
      return ++asked <= 7;
    };
    const auto result = run_model_bench(*tiny.model, options, before, [&](const auto&) { ++done; });
    QVERIFY(!result.ok());
    QVERIFY(result.error().code == ErrorCode::kCancelled);
    QCOMPARE(done, 7);
  }

  void refusesWhatItCannotDo_data() {
    QTest::addColumn<int>("which");
    for (const char* name : {"prompt", "no tokens", "depth", "streams", "too many", "rounds",
                             "decoded", "parallel depth", "shared prefix"})
      QTest::newRow(name) << static_cast<int>(rows_++);
  }
  void refusesWhatItCannotDo() {
    QFETCH(int, which);
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const int context = tiny.model->config().context_length;
    ModelBenchOptions o = small_options();
    if (which == 0) o.prompts = {8, context};
    if (which == 1) o.prompts = {0};
    if (which == 2) o.depths = {context - 1};
    if (which == 3) o.parallel = {kMaxBenchStreams + 1};
    if (which == 4) o.depths.assign(kMaxBenchListed + 1, 1);
    if (which == 5) o.rounds = 0;
    if (which == 6) o.decode_tokens = 0;
    if (which == 7) o.parallel_depth = context;
    if (which == 8) o.shared_prefix = context - kSharedOwnTokens;
    const auto result = run_model_bench(*tiny.model, o);
    QVERIFY(!result.ok());
    QVERIFY(result.error().code == ErrorCode::kInvalidArgument);
    QVERIFY(result.error().message.ends_with("."));
  }

  void nothingListedIsNothingTimed() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    ModelBenchOptions options;
    options.prompts = options.depths = options.parallel = {};
    const auto result = run_model_bench(*tiny.model, options);
    QVERIFY(result.ok() && result->empty());
  }

  void defaultsFitTheContext() {
    QCOMPARE(default_model_bench(1 << 20).depths, ModelBenchOptions{}.depths);
    const ModelBenchOptions o = default_model_bench(1024);
    QCOMPARE(o.prompts, (std::vector<int>{128, 512}));
    QCOMPARE(o.depths, (std::vector<int>{0, 256}));
    QCOMPARE(o.parallel_depth, 256);
  }

  void listsAreNumbersWithCommas() {
    QCOMPARE(parse_bench_list("none", 1, 9).value(), std::vector<int>{});
    QCOMPARE(parse_bench_list("9,1,9", 1, 9).value(), (std::vector<int>{9, 1, 9}));
    for (const char* bad : {"", ",", "1,", ",1", "1,,2", "0", "10", "-1", "1 ", "x",
                            "99999999999999999999", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "none,1"})
      QVERIFY2(!parse_bench_list(bad, 1, 9).ok(), bad);
  }

  void jsonHasTheFieldsThatAreDocumented() {
    auto tiny = test::make_tiny(test::make_backend("cpu", 1));
    const ModelBenchOptions options = small_options();
    std::vector<std::string> rounds;
    auto result = run_model_bench(*tiny.model, options, {}, [&](const auto& series) {
      rounds.push_back(model_bench_round_json(series));
    });
    QVERIFY(result.ok());
    const auto json = nlohmann::json::parse(
        model_bench_json({"a \xff name", "described", "device", 512, options, std::move(*result)}));
    QCOMPARE(json["kv_bytes_per_token"].get<int>(), 512);
    QVERIFY(json["us_per_context_token"].is_number());
    QCOMPARE(json["decode_tokens"].get<int>(), options.decode_tokens);
    QCOMPARE(json["shared_prefix_tokens"].get<int>(), options.shared_prefix);
    for (const auto& [list, size, count] :
         {std::tuple{"prefill", "prompt", 2}, std::tuple{"decode", "depth", 2},
          std::tuple{"parallel", "streams", 2}, std::tuple{"shared_prefix", "requests", 1}}) {
      QCOMPARE(static_cast<int>(json[list].size()), count);
      for (const auto& entry : json[list]) {
        for (const char* field : {size, "tokens", "steps", "prompt_tokens", "cached_tokens",
                                  "tok_s", "tok_s_min", "tok_s_max", "step_ms", "wall_s"})
          QVERIFY2(entry[field].is_number(), field);
        QCOMPARE(static_cast<int>(entry["rounds_s"].size()), options.rounds);
        QCOMPARE(static_cast<int>(entry["rounds_cpu_s"].size()), options.rounds);
      }
    }
    QCOMPARE(json["parallel"][1]["depth"].get<int>(), options.parallel_depth);
    QCOMPARE(static_cast<int>(rounds.size()), 7 * options.rounds);
    const auto last = nlohmann::json::parse(rounds.back());
    QCOMPARE(last["kind"].get<std::string>(), std::string("shared_prefix"));
    QCOMPARE(last["size"].get<int>(), 4);
    QCOMPARE(last["round"].get<int>(), options.rounds);
    QVERIFY(last["seconds"].get<double>() > 0 && last["cpu_seconds"].get<double>() > 0);
  }

  void aTokenOfContextCostsTheSlopeOverTheDepths() {
    std::vector<ModelBenchSeries> all = {timed(ModelBenchKind::kDecode, 0, 4.0)};
    QVERIFY(!seconds_per_context_token(all));
    all.push_back(timed(ModelBenchKind::kDecode, 0, 5.0));
    QVERIFY(!seconds_per_context_token(all));  // one depth, twice
    all = {timed(ModelBenchKind::kDecode, 1, 3.0), timed(ModelBenchKind::kPrefill, 9000, 1.0),
           timed(ModelBenchKind::kDecode, 2001, 7.0), timed(ModelBenchKind::kDecode, 1001, 5.0)};
    QVERIFY(std::abs(*seconds_per_context_token(all) - 2e-6) < 1e-12);
  }

  void barsAreAsLongAsSteps() {
    ModelBenchRun run{"name", "described", "device", 23040, small_options(), {}};
    run.series = {timed(ModelBenchKind::kDecode, 0, 3.0), timed(ModelBenchKind::kParallel, 1, 4.0)};
    const QString one = QString::fromStdString(model_bench_text(run));
    QVERIFY(!one.contains("ms a step") && !one.contains("adds"));
    run.series.push_back(timed(ModelBenchKind::kDecode, 1000, 6.0));
    run.series.push_back(timed(ModelBenchKind::kParallel, 64, 400.0));
    const QString text = QString::fromStdString(model_bench_text(run));
    QVERIFY2(text.contains("A token of context adds 3.00 us to a step of one stream; its keys and "
                           "values are 23.0 kB."),
             qPrintable(text));
    const auto bar = [](int size, int length, const char* ms) {
      return QString("\n%1  %2 %3\n").arg(size, 8).arg(QString(length, '#'), ms);
    };
    for (const QString& line : {bar(0, 24, "3.00"), bar(1000, 48, "6.00").mid(1), bar(1, 1, "4.00"),
                                bar(64, 48, "400.00").mid(1)})
      QVERIFY2(text.contains(line), qPrintable(line + text));
  }

  void spreadIsOfTheSortedValues() {
    const Spread odd = spread({3, 1, 2}), even = spread({4, 1, 2, 3});
    QCOMPARE(odd.median, 2.0);
    QCOMPARE(odd.min, 1.0);
    QCOMPARE(odd.max, 3.0);
    QCOMPARE(even.median, 2.5);
  }

 private:
  int rows_ = 0;
};

QUIRE_TEST(TestBenchModel)
#include "tst_bench_model.moc"
