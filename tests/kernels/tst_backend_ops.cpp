#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/cpu/format.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

using Rows = std::vector<float>;

Rows rows_of(Backend& backend, const Buffer& buffer, int n) {
  Rows rows(static_cast<std::size_t>(n) * buffer.width());
  backend.download(buffer, n, rows);
  return rows;
}

// How far a linear map of `cols` inputs may be from float32: half an activation step per input,
// amax / 254 in its block (BF16: 2^-9 of the input), plus float rounding.
struct Bound {
  DType dtype;
  std::vector<float> weights;  // decoded [rows, cols]
  std::int64_t cols;

  double of(const float* x, std::int64_t output) const {
    double total = 0, magnitude = 0;
    const float* row = weights.data() + output * cols;
    for (std::int64_t begin = 0; begin < cols; begin += 32) {
      const std::int64_t end = std::min(begin + 32, cols);
      double amax = 0, sum = 0;
      for (std::int64_t k = begin; k < end; ++k) {
        amax = std::max(amax, static_cast<double>(std::abs(x[k])));
        sum += std::abs(row[k]);
        magnitude += std::abs(x[k]) * (std::abs(row[k]) + 0.5);
        if (dtype == DType::kBF16) total += 0x1.01p-9 * std::abs(x[k] * row[k]);
      }
      if (cpu::is_quantised(dtype)) total += 1.0001 * amax / 254 * sum;
    }
    return total + magnitude * 0x1p-23 * (static_cast<double>(cols) / 4 + 16);
  }
};

Rows normalised(const float* x, const std::vector<float>& norm) {
  double squares = 0;
  for (std::size_t i = 0; i < norm.size(); ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(norm.size()));
  Rows out;
  for (std::size_t i = 0; i < norm.size(); ++i)
    out.push_back(static_cast<float>(x[i] * scale * norm[i]));
  return out;
}

std::vector<float> linear_add_rows(Backend& backend, const StoredMatrix& weight, const Rows& input,
                                   const std::vector<float>* bias) {
  const int n = static_cast<int>(input.size() / weight.cols);
  Step step = flat_step(n);
  const auto h = backend.allocate(n, static_cast<int>(weight.cols));
  const auto x = backend.allocate(n, static_cast<int>(weight.rows));
  set_rows(backend, step, *h, input);
  const MatrixView view = weight.view();
  const auto matrix = backend.pack({&view, 1});
  std::unique_ptr<Vector> device_bias = bias ? backend.upload(*bias) : nullptr;
  backend.begin_step(step.view());
  backend.linear_add(*h, *matrix, device_bias.get(), *x);
  return rows_of(backend, *x, n);
}

}  // namespace

class TestBackendOps : public QObject {
  Q_OBJECT
 private slots:
  void linearStaysWithinItsBound();
  void everyInstructionSetAndThreadCountGivesTheSameBits();
  void embedDecodesAndScales();
  void normGateUpMatchesTheReference();
  void normQkvStacksPartsOfDifferentTypes();
  void headReadsOnlyTheRowsAskedFor();
  void ropeRotatesNormsAndWrites();
  void aDamagedRowStaysDamaged();
  void denormalsAreZeroInEveryOperation();
  void unknownOptionsAreRefused();
};

void TestBackendOps::linearStaysWithinItsBound() {
  Random random(10);
  const auto reference = make_reference_backend();
  for (const DType dtype : all_dtypes()) {
    const std::int64_t block = dtype_info(dtype).block_elements;
    const StoredMatrix weight(dtype, 37, block == 1 ? 90 : block == 32 ? 96 : 256, random);
    const Bound bound{dtype, weight.decoded(), weight.cols};
    const Rows input = random.normals(5 * weight.cols);
    const std::vector<float> bias = random.normals(weight.rows);
    const Rows expected = linear_add_rows(*reference, weight, input, &bias);
    for (const CpuConfig& config : cpu_configs()) {
      const auto backend = make_cpu(config.options);
      const Rows actual = linear_add_rows(*backend, weight, input, &bias);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        const double allowed = bound.of(input.data() + i / 37 * weight.cols, i % 37);
        QVERIFY2(std::abs(actual[i] - expected[i]) <= allowed,
                 qPrintable(QString("%1 %2: %3 against %4, allowed %5")
                                .arg(config.name.c_str(), dtype_info(dtype).name.data())
                                .arg(actual[i])
                                .arg(expected[i])
                                .arg(allowed)));
      }
    }
  }
}

void TestBackendOps::everyInstructionSetAndThreadCountGivesTheSameBits() {
  Random random(11);
  for (const DType dtype : {DType::kQ4_1, DType::kQ6_K, DType::kF16, DType::kBF16}) {
    const StoredMatrix weight(dtype, 75, 256, random);
    const Rows input = random.normals(23 * 256);
    const Rows expected =
        linear_add_rows(*make_cpu({.num_threads = 1, .isa = "scalar"}), weight, input, nullptr);
    for (const CpuConfig& config : cpu_configs())
      for (int threads = 1; threads <= 4; ++threads) {
        BackendOptions options = config.options;
        options.num_threads = threads;
        QVERIFY(same_bits(linear_add_rows(*make_cpu(options), weight, input, nullptr), expected));
      }
  }
}

void TestBackendOps::embedDecodesAndScales() {
  Random random(12);
  for (const DType dtype : all_dtypes()) {
    const StoredMatrix table(dtype, 9, 256, random);
    const MatrixView view = table.view();
    Step step = flat_step(3);
    step.input_ids = {8, 0, 5};
    Rows expected = table.decoded();
    for (const CpuConfig& config : cpu_configs()) {
      const auto backend = make_cpu(config.options);
      const auto x = backend->allocate(3, 256);
      backend->begin_step(step.view());
      for (const auto& matrix : {backend->pack({&view, 1}), backend->pack_table(view)}) {
        backend->embed(*matrix, 2.0f, *x);
        const Rows actual = rows_of(*backend, *x, 3);
        for (int i = 0; i < 3 * 256; ++i)
          QCOMPARE(actual[i], 2.0f * expected[step.input_ids[i / 256] * 256 + i % 256]);
      }
    }
  }
}

void TestBackendOps::normGateUpMatchesTheReference() {
  Random random(13);
  const std::vector<float> norm = random.normals(64, 0.5f);
  for (const Activation activation : {Activation::kSiluMul, Activation::kGeluTanhMul})
    for (const int ffn : {48, 21}) {
      // Plain weights, so that only float rounding separates the two.
      const StoredMatrix both(DType::kF32, 2 * ffn, 64, random);
      const MatrixView view = both.view();
      const Rows input = random.normals(6 * 64, 3.0f);
      const auto run = [&](Backend& backend) {
        Step step = flat_step(6);
        const auto x = backend.allocate(6, 64), out = backend.allocate(6, ffn);
        set_rows(backend, step, *x, input);
        const auto weight = backend.pack({&view, 1});
        const auto device_norm = backend.upload(norm);
        backend.begin_step(step.view());
        backend.norm_gate_up(*x, *device_norm, 1e-5f, *weight, activation, *out);
        return rows_of(backend, *out, 6);
      };
      const Rows expected = run(*make_reference_backend());
      for (const CpuConfig& config : cpu_configs()) {
        const Rows actual = run(*make_cpu(config.options));
        for (std::size_t i = 0; i < actual.size(); ++i)
          QVERIFY2(std::abs(actual[i] - expected[i]) <= 2e-6 * (1 + std::abs(expected[i])),
                   qPrintable(QString("%1 against %2").arg(actual[i]).arg(expected[i])));
      }
    }
}

void TestBackendOps::normQkvStacksPartsOfDifferentTypes() {
  Random random(14);
  const StoredMatrix q(DType::kQ4_K, 40, 256, random), k(DType::kF16, 24, 256, random),
      v(DType::kBF16, 24, 256, random);
  const MatrixView parts[] = {q.view(), k.view(), v.view()};
  const Rows input = random.normals(4 * 256);
  const std::vector<float> norm(256, 1.0f), bias = random.normals(88);
  const auto run = [&](Backend& backend) {
    Step step = flat_step(4);
    const auto x = backend.allocate(4, 256), out = backend.allocate(4, 88);
    set_rows(backend, step, *x, input);
    const auto weight = backend.pack(parts);
    const auto device_norm = backend.upload(norm), device_bias = backend.upload(bias);
    backend.begin_step(step.view());
    backend.norm_qkv(*x, *device_norm, 1e-5f, *weight, device_bias.get(), *out);
    return rows_of(backend, *out, 4);
  };
  const Rows expected = run(*make_reference_backend());
  for (const CpuConfig& config : cpu_configs()) {
    const Rows actual = run(*make_cpu(config.options));
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const int output = static_cast<int>(i % 88);
      const StoredMatrix& part = output < 40 ? q : output < 64 ? k : v;
      const Bound bound{part.dtype, part.decoded(), 256};
      const Rows x = normalised(input.data() + i / 88 * 256, norm);
      const int row = output < 40 ? output : output < 64 ? output - 40 : output - 64;
      QVERIFY(std::abs(actual[i] - expected[i]) <= bound.of(x.data(), row));
    }
  }
}

void TestBackendOps::headReadsOnlyTheRowsAskedFor() {
  Random random(15);
  const StoredMatrix head(DType::kQ8_0, 50, 64, random);
  const MatrixView view = head.view();
  const Rows input = random.normals(6 * 64);
  const std::vector<float> norm = random.normals(64);
  const Bound bound{head.dtype, head.decoded(), 64};
  const auto run = [&](Backend& backend, const std::vector<std::int32_t>& rows) {
    Step step = flat_step(6);
    const auto x = backend.allocate(6, 64);
    set_rows(backend, step, *x, input);
    const auto weight = backend.pack({&view, 1});
    const auto device_norm = backend.upload(norm);
    std::vector<float> logits(rows.size() * 50);
    backend.begin_step(step.view());
    backend.head(*x, {rows, places_of(logits, rows.size()), {}}, *device_norm, 1e-6f, *weight);
    return logits;
  };
  for (const CpuConfig& config : cpu_configs()) {
    const auto backend = make_cpu(config.options);
    const Rows both = run(*backend, {5, 1});
    QVERIFY(same_bits(Rows(both.begin(), both.begin() + 50), run(*backend, {5})));
    QVERIFY(same_bits(Rows(both.begin() + 50, both.end()), run(*backend, {1})));
    QVERIFY(run(*backend, {}).empty());
    const Rows expected = run(*make_reference_backend(), {5, 1});
    for (std::size_t i = 0; i < both.size(); ++i) {
      const Rows x = normalised(input.data() + (i < 50 ? 5 : 1) * 64, norm);
      QVERIFY(std::abs(both[i] - expected[i]) <= bound.of(x.data(), i % 50));
    }
  }
}

void TestBackendOps::ropeRotatesNormsAndWrites() {
  Random random(16);
  const QkvShape shape{6, 2, 32};
  const Rows input = random.normals(5 * shape.qkv_width());
  const std::vector<float> norm = random.normals(32);
  std::vector<float> frequencies;
  for (int i = 0; i < 12; ++i) frequencies.push_back(std::pow(10000.0f, -i / 12.0f));
  KvSpec spec{{{2, 32, 0}}};
  for (const bool interleaved : {false, true})
    for (const bool normed : {false, true}) {
      const auto run = [&](Backend& backend, int padding) {
        Step step({{0, 40, 3}, {1, 7, 2 - padding}}, {{5, 2, 0}, {3}}, 16, padding);
        const auto qkv = backend.allocate(5, shape.qkv_width());
        set_rows(backend, step, *qkv, input);
        const auto pool = backend.allocate_kv(spec, 6, 16);
        const auto weight = backend.upload(norm), inv_freq = backend.upload(frequencies);
        backend.begin_step(step.view());
        backend.rope_write(*qkv, shape, normed ? weight.get() : nullptr,
                           normed ? weight.get() : nullptr, 1e-6f,
                           {inv_freq.get(), 1.25f, 24, interleaved}, *pool, 0);
        return rows_of(backend, *qkv, 5 - padding);
      };
      const Rows expected = run(*make_reference_backend(), 0);
      for (const CpuConfig& config : cpu_configs()) {
        const auto backend = make_cpu(config.options);
        const Rows actual = run(*backend, 0);
        for (std::size_t i = 0; i < actual.size(); ++i)
          QVERIFY(std::abs(actual[i] - expected[i]) <= 1e-5 * (1 + std::abs(expected[i])));
        const Rows padded = run(*backend, 1);
        QVERIFY(same_bits(padded, Rows(actual.begin(), actual.begin() + padded.size())));
      }
    }
}

// A NaN in an activation row reaches all of that row's outputs and no other row's.
void TestBackendOps::aDamagedRowStaysDamaged() {
  Random random(17);
  const StoredMatrix weight(DType::kQ4_0, 32, 96, random);
  Rows input = random.normals(3 * 96);
  for (const CpuConfig& config : cpu_configs()) {
    const auto backend = make_cpu(config.options);
    const Rows whole = linear_add_rows(*backend, weight, input, nullptr);
    Rows damaged_input = input;
    damaged_input[96 + 40] = std::nanf("");
    const Rows damaged = linear_add_rows(*backend, weight, damaged_input, nullptr);
    for (int i = 0; i < 3 * 32; ++i)
      QVERIFY(i / 32 == 1 ? std::isnan(damaged[i]) : damaged[i] == whole[i]);
  }
}

// Every result below is a denormal where they are not flushed. With four threads and 64 rows the
// workers compute most of them.
void TestBackendOps::denormalsAreZeroInEveryOperation() {
  constexpr int kRows = 64, kWidth = 64;
  constexpr float kTiny = 1e-20f;  // its square is a denormal
  const std::vector<float> tiny_square(kRows * kWidth, kTiny);
  std::vector<float> gate_and_up(2 * kRows * kWidth, kTiny);
  std::fill_n(gate_and_up.begin(), kRows * kWidth, 1 / kTiny);
  const auto view_of = [](const std::vector<float>& values) {
    return MatrixView{DType::kF32, static_cast<std::int64_t>(values.size()) / kWidth, kWidth,
                      values.data()};
  };
  const MatrixView tiny_view = view_of(tiny_square), gate_up_view = view_of(gate_and_up);
  const auto zero = [](const Rows& rows) {
    return std::ranges::all_of(rows, [](float x) { return x == 0; });
  };
  for (const CpuConfig& config : cpu_configs()) {
    BackendOptions options = config.options;
    options.num_threads = 4;
    options.kv_dtype = KvDType::kF32;
    const auto backend = make_cpu(options);
    const auto tiny = backend->pack({&tiny_view, 1}), gate_up = backend->pack({&gate_up_view, 1});
    const auto tiny_norm = backend->upload(std::vector<float>(kWidth, kTiny));
    const auto ones = backend->allocate(kRows, kWidth), small = backend->allocate(kRows, kWidth),
               out = backend->allocate(kRows, kWidth);
    Step step({{0, 0, kRows}}, {{0, 1, 2, 3}}, 16);
    set_rows(*backend, step, *ones, Rows(kRows * kWidth, 1.0f));
    set_rows(*backend, step, *small, tiny_square);
    backend->begin_step(step.view());

    backend->embed(*tiny, kTiny, *out);
    QVERIFY(zero(rows_of(*backend, *out, kRows)));
    backend->linear_add(*small, *tiny, nullptr, *out);
    QVERIFY(zero(rows_of(*backend, *out, kRows)));
    backend->norm_qkv(*ones, *tiny_norm, 1e-5f, *tiny, nullptr, *out);
    QVERIFY(zero(rows_of(*backend, *out, kRows)));
    backend->norm_gate_up(*ones, *tiny_norm, 1e-5f, *gate_up, Activation::kSiluMul, *out);
    QVERIFY(zero(rows_of(*backend, *out, kRows)));
    Rows logits(3 * kRows, 1.0f);
    const std::vector<std::int32_t> sampled{0, 7, 63};
    backend->head(*ones, {sampled, places_of(logits, 3), {}}, *tiny_norm, 1e-5f, *tiny);
    QVERIFY(zero(logits));

    // One head: the first key attracts all queries and has no value; the others' values times
    // their small probabilities are denormals.
    const QkvShape shape{1, 1, kWidth};
    const auto qkv = backend->allocate(kRows, shape.qkv_width());
    Rows rows;
    for (int row = 0; row < kRows; ++row)
      for (int i = 0; i < 3 * kWidth; ++i)
        rows.push_back(i < kWidth ? 1.0f : i < 2 * kWidth ? (row == 0) : 2e-38f * (row > 0));
    set_rows(*backend, step, *qkv, rows);
    const auto pool = backend->allocate_kv({{{1, kWidth, 0}}}, 4, 16);
    const auto no_turn = backend->upload(std::vector<float>(kWidth / 2, 0.0f));
    backend->begin_step(step.view());
    backend->rope_write(*qkv, shape, nullptr, nullptr, 1e-5f, {no_turn.get(), 1.0f, kWidth, false},
                        *pool, 0);
    backend->attend(*qkv, shape, 0.25f, *pool, 0, *out);
    QVERIFY(zero(rows_of(*backend, *out, kRows)));
    set_rows(*backend, step, *qkv, Rows(rows.size(), kTiny));
    backend->begin_step(step.view());
    backend->rope_write(*qkv, shape, nullptr, nullptr, 1e-5f, {no_turn.get(), kTiny, kWidth, false},
                        *pool, 0);
    const Rows turned = rows_of(*backend, *qkv, kRows);
    for (int row = 0; row < kRows; ++row)
      QVERIFY(zero(
          Rows(turned.begin() + row * 3 * kWidth, turned.begin() + row * 3 * kWidth + 2 * kWidth)));
  }
}

void TestBackendOps::unknownOptionsAreRefused() {
  std::string error;
  BackendOptions options;
  options.isa = "sse9";
  QVERIFY(!make_cpu_backend(options, error));
  QVERIFY(QString::fromStdString(error).contains("sse9"));
  options = {};
  options.num_threads = 2000;
  QVERIFY(!make_cpu_backend(options, error));
  QVERIFY(QString::fromStdString(error).contains("1024"));
}

QUIRE_TEST(TestBackendOps)
#include "tst_backend_ops.moc"
