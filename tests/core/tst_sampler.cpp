#include "engine/sampling/sampler.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "engine/sampling/philox.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(unsigned seed, int vocab) {
  std::mt19937 generator(seed);
  std::vector<float> logits;
  for (int i = 0; i < vocab; ++i)
    logits.push_back(static_cast<float>(generator() % 2001) / 100.0f - 10.0f);  // with ties
  return logits;
}

SampledRow sample(std::vector<float> logits, SamplingParams params, int output_index = 0,
                  std::vector<TokenId> tokens = {}, int num_prompt = 0,
                  std::vector<TokenId> banned = {}) {
  if (!params.seed) params.seed = 1;
  return sample_row(logits, {RequestId{1}, &params, output_index, tokens, num_prompt, banned});
}

// The probabilities the documented rules give, the slow and plain way; unsorted, [vocab].
std::vector<double> distribution(std::vector<float> logits, const SamplingParams& params,
                                 const std::vector<TokenId>& tokens, std::size_t num_prompt,
                                 const std::vector<TokenId>& banned) {
  const std::size_t vocab = logits.size();
  for (const TokenId token : banned) logits[token] = -kInfinity;
  for (std::size_t t = 0; t < vocab; ++t) {
    const auto id = static_cast<TokenId>(t);
    if (std::ranges::count(tokens, id) > 0)
      logits[t] = logits[t] > 0 ? logits[t] / params.repetition_penalty
                                : logits[t] * params.repetition_penalty;
    const auto count = std::count(tokens.begin() + num_prompt, tokens.end(), id);
    if (count > 0)
      logits[t] -= params.presence_penalty + params.frequency_penalty * static_cast<float>(count);
  }
  std::vector<std::size_t> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
  std::vector<double> weights(vocab, 0);
  if (params.greedy()) {
    weights[order[0]] = 1;
    return weights;
  }
  const std::size_t k = params.top_k > 0 ? std::min<std::size_t>(params.top_k, vocab) : vocab;
  const double top = logits[order[0]];
  double total = 0;
  for (std::size_t i = 0; i < k; ++i)
    total += weights[order[i]] = std::exp((logits[order[i]] - top) / double{params.temperature});
  double reached = 0, kept = 0;
  for (std::size_t i = 0; i < k; ++i) {
    double& weight = weights[order[i]];
    const bool in_mass = params.top_p == 1.0f || reached < params.top_p * total;
    reached += weight;
    if (!in_mass || weight < params.min_p) weight = 0;
    kept += weight;
  }
  for (double& weight : weights) weight /= kept;
  return weights;
}

SamplingParams random_params(std::mt19937& dice) {
  const auto one_of = [&](std::initializer_list<float> values) {
    return *(values.begin() + dice() % values.size());
  };
  SamplingParams params;
  params.temperature = one_of({0.0f, 0.3f, 0.8f, 1.0f, 2.0f});
  params.top_k = static_cast<int>(one_of({0, 0, 1, 3, 20, 100, 5000}));
  params.top_p = one_of({1.0f, 1.0f, 0.95f, 0.5f, 0.01f});
  params.min_p = one_of({0.0f, 0.0f, 0.05f, 0.5f, 1.0f});
  params.repetition_penalty = one_of({1.0f, 1.3f, 0.7f});
  params.presence_penalty = one_of({0.0f, 0.0f, 1.5f, -1.0f});
  params.frequency_penalty = one_of({0.0f, 0.0f, 0.5f});
  return params;
}

}  // namespace

class TestSampler : public QObject {
  Q_OBJECT
 private slots:
  void philoxGivesThePublishedAnswers();
  void samplesOnlyWhatTheRulesKeep();
  void drawsWithTheProbabilitiesOfTheRules();
  void isAPureFunctionOfSeedAndIndex();
  void greedyTakesTheLowestOfEqualLogits();
  void theLikeliestAreFoundWhereverTheyAre();
  void bannedIdsAreNotChosen();
  void survivesNanAndInfinity();
  void theLargestAloneWillDoWhenNothingElseDecides();
  void logprobsAreThoseOfTheUnmodifiedLogits();
  void refusesParametersOutOfRange_data();
  void refusesParametersOutOfRange();
};

// The known answers of the Random123 distribution for philox4x32-10.
void TestSampler::philoxGivesThePublishedAnswers() {
  using Words = std::array<std::uint32_t, 4>;
  QVERIFY(philox4x32({0, 0, 0, 0}, {0, 0}) ==
          (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t ones = 0xffffffff;
  QVERIFY(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
          (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  QVERIFY(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double uniform = philox_uniform(5, i, 0);
    QVERIFY(uniform >= 0.0 && uniform < 1.0);
  }
}

void TestSampler::samplesOnlyWhatTheRulesKeep() {
  std::mt19937 dice(11);
  for (int round = 0; round < 150; ++round) {
    const int vocab = 2 + static_cast<int>(dice() % (round % 10 == 0 ? 8000 : 400));
    const auto logits = random_logits(static_cast<unsigned>(round), vocab);
    const SamplingParams params = random_params(dice);
    std::vector<TokenId> tokens;
    for (int i = 0; i < 30; ++i) tokens.push_back(static_cast<TokenId>(dice() % vocab));
    const std::vector<TokenId> banned = {static_cast<TokenId>(dice() % vocab)};
    const auto wanted = distribution(logits, params, tokens, 12, banned);
    for (int i = 0; i < 5; ++i) {
      const TokenId token = sample(logits, params, i, tokens, 12, banned).token;
      QVERIFY2(wanted[token] > 0, qPrintable(QString("round %1").arg(round)));
    }
  }
}

// Chi-square over 2000 draws; the bound is the 99.9th percentile plus slack for the fixed seeds.
void TestSampler::drawsWithTheProbabilitiesOfTheRules() {
  std::mt19937 dice(3);
  for (int round = 0; round < 12; ++round) {
    const auto logits = random_logits(static_cast<unsigned>(round) + 900, 25);
    SamplingParams params = random_params(dice);
    params.temperature = 3.0f;
    params.seed = static_cast<std::uint64_t>(round) << 33 | 5;
    const std::vector<TokenId> tokens = {1, 2, 2, 3, 3, 3};
    const auto wanted = distribution(logits, params, tokens, 2, {});
    std::vector<int> counts(25, 0);
    constexpr int kDraws = 2000;
    for (int i = 0; i < kDraws; ++i) ++counts[sample(logits, params, i, tokens, 2).token];
    double chi_square = 0, rest_wanted = 0, rest_seen = 0;
    int cells = 0;
    for (int t = 0; t < 25; ++t) {
      const double expected = wanted[t] * kDraws;
      if (expected < 5) {
        rest_wanted += expected;
        rest_seen += counts[t];
        continue;
      }
      chi_square += (counts[t] - expected) * (counts[t] - expected) / expected;
      ++cells;
    }
    QVERIFY(std::abs(rest_seen - rest_wanted) <= 6 * std::sqrt(rest_wanted + 1));
    const double freedom = std::max(1, cells - 1);
    QVERIFY2(chi_square < freedom + 4.5 * std::sqrt(2 * freedom) + 6,
             qPrintable(QString("round %1: %2").arg(round).arg(chi_square)));
  }
}

void TestSampler::isAPureFunctionOfSeedAndIndex() {
  const auto logits = random_logits(5, 500);
  SamplingParams params;
  params.temperature = 4.0f;
  std::vector<TokenId> first, again, other;
  for (int i = 0; i < 50; ++i) first.push_back(sample(logits, params, i).token);
  for (int i = 49; i >= 0; --i) again.insert(again.begin(), sample(logits, params, i).token);
  params.seed = 2;
  for (int i = 0; i < 50; ++i) other.push_back(sample(logits, params, i).token);
  QVERIFY(first == again);
  QVERIFY(first != other);
}

void TestSampler::greedyTakesTheLowestOfEqualLogits() {
  SamplingParams params;
  params.temperature = 0;
  QCOMPARE(sample({1, 3, 2, 3, 3}, params).token, 1);
  params.temperature = 1;
  params.top_k = 1;
  QCOMPARE(sample({1, 3, 2, 3, 3}, params).token, 1);
  params.top_k = 0;
  params.top_p = 1e-6f;
  QCOMPARE(sample({1, 3, 2, 3, 3}, params).token, 1);
  params.top_p = 1;
  params.temperature = 1e-30f;
  QVERIFY(sample({1, 3, 2, 3, 3}, params).token % 2 == 1 ||
          sample({1, 3, 2, 3, 3}, params).token == 4);
}

void TestSampler::theLikeliestAreFoundWhereverTheyAre() {
  std::mt19937 dice(7);
  for (int round = 0; round < 40; ++round) {
    const auto vocab = 300 + dice() % 4000;
    std::vector<float> logits =
        random_logits(static_cast<unsigned>(round), static_cast<int>(vocab));
    for (float& logit : logits)
      if (dice() % 4 == 0) logit = dice() % 2 == 0 ? kNan : -kInfinity;
    // In neighbouring places and in far ones, with the row's last among them.
    std::set<TokenId> likeliest{static_cast<TokenId>(vocab - 1)};
    const auto first = static_cast<TokenId>(dice() % (vocab - 3));
    for (TokenId id = first; id < first + 3; ++id) likeliest.insert(id);
    while (likeliest.size() < 6) likeliest.insert(static_cast<TokenId>(dice() % vocab));
    for (const TokenId id : likeliest) logits[static_cast<std::size_t>(id)] = 50.0f;
    SamplingParams params;
    params.top_k = 6;
    std::set<TokenId> drawn;
    for (int i = 0; i < 200; ++i) drawn.insert(sample(logits, params, i).token);
    QCOMPARE(drawn, likeliest);
    params.temperature = 0;
    QCOMPARE(sample(logits, params).token, *likeliest.begin());
  }
}

void TestSampler::bannedIdsAreNotChosen() {
  SamplingParams params;
  params.temperature = 0;
  QCOMPARE(sample({1, 5, 4, 3}, params, 0, {}, 0, {1, 1, 2}).token, 3);
  // A request that bans everything gets the likeliest, and never takes the engine down.
  QCOMPARE(sample({1, 5, 4, 3}, params, 0, {}, 0, {0, 1, 2, 3, 1}).token, 1);
  QCOMPARE(sample({kNan, 5, kNan, -kInfinity}, params, 0, {}, 0, {1}).token, 1);
}

void TestSampler::survivesNanAndInfinity() {
  SamplingParams params;
  params.logprobs = 2;
  for (const float temperature : {0.0f, 1.0f}) {
    params.temperature = temperature;
    QCOMPARE(sample({kNan, kNan, 2, kNan}, params).token, 2);
    QCOMPARE(sample({-kInfinity, 1, kInfinity, 0}, params).token, 2);
    QVERIFY_EXCEPTION_THROWN(sample({kNan, kNan}, params), DeviceError);
    QVERIFY_EXCEPTION_THROWN(sample({-kInfinity, kNan}, params), DeviceError);
  }
  params.temperature = 1;
  params.repetition_penalty = 100;
  const float huge = std::numeric_limits<float>::max();
  const TokenId token = sample({-huge, -huge}, params, 0, {0, 1}, 0).token;
  QVERIFY(token == 0 || token == 1);
}

void TestSampler::theLargestAloneWillDoWhenNothingElseDecides() {
  SamplingParams greedy, drawn, first;
  greedy.temperature = 0;
  first.top_k = 1;
  const auto takes = [](const SamplingParams& params, std::span<const TokenId> banned = {}) {
    SamplingRow row;
    row.params = &params;
    row.banned = banned;
    return takes_largest(row);
  };
  const TokenId token = 3;
  QVERIFY(takes(greedy) && takes(first));
  QVERIFY(!takes(drawn) && !takes(greedy, {&token, 1}));
  for (const auto edit : {+[](SamplingParams& p) { p.logprobs = 0; },
                          +[](SamplingParams& p) { p.repetition_penalty = 1.1f; },
                          +[](SamplingParams& p) { p.presence_penalty = 0.1f; },
                          +[](SamplingParams& p) { p.frequency_penalty = 0.1f; }}) {
    SamplingParams edited = greedy;
    edit(edited);
    QVERIFY(!takes(edited));
  }
  QCOMPARE(sample_largest({2.5f, 17}).token, 17);
  QVERIFY_EXCEPTION_THROWN(sample_largest({}), DeviceError);
}

void TestSampler::logprobsAreThoseOfTheUnmodifiedLogits() {
  const auto logits = random_logits(8, 300);
  double total = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  const auto logprob = [&](TokenId token) { return logits[token] - std::log(total); };
  SamplingParams params;
  params.temperature = 0.5f;
  params.top_k = 3;
  params.repetition_penalty = 1.5f;
  params.logprobs = 7;
  const SampledRow row = sample(logits, params, 0, {1, 2, 3}, 1);
  QVERIFY(std::abs(row.logprob - logprob(row.token)) < 1e-4);
  QCOMPARE(row.top.size(), std::size_t{7});
  for (std::size_t i = 0; i < row.top.size(); ++i) {
    QVERIFY(std::abs(row.top[i].logprob - logprob(row.top[i].token)) < 1e-4);
    const auto likelier = std::ranges::count_if(
        logits, [&](float logit) { return logit > logits[row.top[i].token]; });
    QVERIFY(likelier <= static_cast<int>(i));
  }
  params.logprobs = 0;
  QVERIFY(sample(logits, params).top.empty());
  QVERIFY(sample(logits, params).logprob < 0);
  params.logprobs.reset();
  QCOMPARE(sample(logits, params).logprob, 0.0f);
}

void TestSampler::refusesParametersOutOfRange_data() {
  QTest::addColumn<QString>("field");
  for (const char* field :
       {"max_tokens", "min_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
        "presence_penalty", "frequency_penalty", "logprobs", "stop_token_ids", "stop"})
    QTest::newRow(field) << field;
}

void TestSampler::refusesParametersOutOfRange() {
  QFETCH(QString, field);
  SamplingParams params;
  QVERIFY(validate(params, 10).ok());
  if (field == "max_tokens") params.max_tokens = -2;
  if (field == "min_tokens") params.max_tokens = 3, params.min_tokens = 4;
  if (field == "temperature") params.temperature = -0.1f;
  if (field == "top_k") params.top_k = -1;
  if (field == "top_p") params.top_p = 0;
  if (field == "min_p") params.min_p = kNan;
  if (field == "repetition_penalty") params.repetition_penalty = 0;
  if (field == "presence_penalty") params.presence_penalty = 2.5f;
  if (field == "frequency_penalty") params.frequency_penalty = -kInfinity;
  if (field == "logprobs") params.logprobs = 21;
  if (field == "stop_token_ids") params.stop_token_ids = {3, 10};
  if (field == "stop") params.stop = {"a", ""};
  const Status status = validate(params, 10);
  QVERIFY(!status.ok());
  QVERIFY(QString::fromStdString(status.error().message).startsWith(field));
}

QUIRE_TEST(TestSampler)
#include "tst_sampler.moc"
