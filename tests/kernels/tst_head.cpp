#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

class TestHead : public QObject {
  Q_OBJECT
 private slots:
  // Equal logits, both zeros, infinities, NaN and rows without any logit above -infinity among
  // them; every other row is asked for all logits.
  void findsTheLargestLogit() {
    constexpr int kRows = 6, kVocab = 333, kHidden = 2;
    Random random(19);
    const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    const std::vector<float> columns[] = {
        random.normals(kVocab),
        std::vector<float>(kVocab, -0.0f),
        std::vector<float>(kVocab, nan),
    };
    for (int kind = 0; kind < 6; ++kind) {
      std::vector<float> column = columns[std::min(kind, 2)];
      if (kind == 1) column[50] = column[200] = 0.0f;
      if (kind == 3) column[300] = column[20] = -1.0f;
      if (kind == 4) column[17] = column[251] = infinity;
      if (kind == 5) std::ranges::fill(column, -infinity);
      std::vector<float> weights;
      for (const float value : column) weights.insert(weights.end(), {value, 0.0f});
      const MatrixView view{DType::kF32, kVocab, kHidden, weights.data()};
      const std::vector<std::int32_t> rows{5, 0, 3, 2};
      const auto run = [&](Backend& backend, bool all) {
        Step step = flat_step(kRows);
        const auto x = backend.allocate(kRows, kHidden);
        std::vector<float> input;
        for (int i = 0; i < kRows; ++i) input.insert(input.end(), {1.0f, 1.0f});
        set_rows(backend, step, *x, input);
        const auto weight = backend.pack({&view, 1});
        const auto norm = backend.upload(std::vector<float>(kHidden, 1.0f));
        std::vector<float> logits(rows.size() * kVocab, 7.0f);
        std::vector<float*> places = places_of(logits, rows.size());
        std::vector<LargestLogit> largest(rows.size(), {7.0f, 7});
        for (std::size_t i = 0; i < rows.size(); ++i)
          if (!all && i % 2 == 1) places[i] = nullptr;
        backend.begin_step(step.view());
        backend.head(*x, {rows, places, largest}, *norm, 1e-6f, *weight);
        return std::pair(logits, largest);
      };
      const auto check = [&](Backend& backend) {
        const std::vector<float> logits = run(backend, true).first;
        const auto [some, largest] = run(backend, false);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          if (i % 2 == 0) {
            QVERIFY(std::memcmp(&some[i * kVocab], &logits[i * kVocab], kVocab * sizeof(float)) ==
                    0);
            QCOMPARE(largest[i].id, 7);
            continue;
          }
          LargestLogit expected;
          for (int id = 0; id < kVocab; ++id) {
            const float logit =
                std::min(logits[i * kVocab + id], std::numeric_limits<float>::max());
            if (logit > expected.logit) expected = {logit, id};
          }
          QCOMPARE(largest[i].id, expected.id);
          QVERIFY(largest[i].logit == expected.logit);
          QVERIFY(std::ranges::all_of(&some[i * kVocab], &some[i * kVocab] + kVocab,
                                      [](float value) { return value == 7.0f; }));
        }
      };
      check(*make_reference_backend());
      for (CpuConfig config : cpu_configs())
        for (int threads = 1; threads <= 4; ++threads) {
          config.options.num_threads = threads;
          check(*make_cpu(config.options));
        }
    }
  }
};

QUIRE_TEST(TestHead)
#include "tst_head.moc"
