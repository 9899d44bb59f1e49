#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/reference/storage.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::test;

namespace {

using Rows = std::vector<float>;

// One request of `length` tokens with random Q, K and V rows.
struct Context {
  QkvShape shape;
  int length;
  int window = 0;
  Rows qkv;  // [length, qkv_width]

  Context(QkvShape s, int n, Random& random, int w = 0)
      : shape(s), length(n), window(w), qkv(random.normals(n * s.qkv_width())) {}
};

constexpr int kBlocks = 96;

// Runs the context through rope_write (without rotation) and attend in chunks of the given lengths,
// over a poisoned pool, next to `neighbours` other requests, and returns the attention output.
struct Runner {
  Backend& backend;
  int block_size = 16;
  bool shuffled = false;
  int neighbours = 0, padding = 0;

  Rows run(const Context& context, const std::vector<int>& chunks) const {
    Random random(99);
    const KvSpec spec{{{context.shape.num_kv_heads, context.shape.head_dim, context.window}}};
    const auto pool = backend.allocate_kv(spec, kBlocks, block_size);
    pool->poison();
    const std::vector<std::vector<int>> blocks = block_tables(context.length);
    Rows out;
    int done = 0;
    for (const int chunk : chunks) {
      std::vector<Piece> pieces;
      for (int i = 0; i < neighbours; ++i) pieces.push_back({i, done == 0 ? 0 : 2 * done, 1});
      if (done > 0) pieces.clear();
      const int before = static_cast<int>(pieces.size());
      pieces.push_back({neighbours, done, chunk});
      Step step(pieces, blocks, block_size, padding);
      Rows rows = random.normals(before * context.shape.qkv_width());
      rows.insert(rows.end(), context.qkv.begin() + done * context.shape.qkv_width(),
                  context.qkv.begin() + (done + chunk) * context.shape.qkv_width());
      rows.resize(step.num_tokens() * context.shape.qkv_width(), 1.0f);
      const Rows result = attend(*pool, context.shape, step, rows);
      const std::size_t width = context.shape.num_heads * context.shape.head_dim;
      for (std::size_t i = (before + chunk) * width; i < result.size(); ++i)
        if (result[i] != 0.0f) return {};  // a padding row must give zero
      out.insert(out.end(), result.begin() + before * width,
                 result.begin() + (before + chunk) * width);
      done += chunk;
    }
    return out;
  }

  // Every request gets its own blocks; the last table is the context's.
  std::vector<std::vector<int>> block_tables(int length) const {
    std::vector<int> order(kBlocks);
    std::iota(order.begin(), order.end(), 0);
    if (shuffled) std::shuffle(order.begin(), order.end(), std::mt19937(5));
    std::vector<std::vector<int>> blocks;
    for (int i = 0; i < neighbours; ++i) blocks.push_back({order[i]});
    const int needed = (length + block_size - 1) / block_size;
    blocks.emplace_back(order.begin() + neighbours, order.begin() + neighbours + needed);
    return blocks;
  }

  Rows attend(KvPool& pool, const QkvShape& shape, Step& step, const Rows& rows) const {
    const auto qkv = backend.allocate(step.num_tokens(), shape.qkv_width());
    const auto out = backend.allocate(step.num_tokens(), shape.num_heads * shape.head_dim);
    set_rows(backend, step, *qkv, rows);
    backend.begin_step(step.view());
    backend.rope_write(*qkv, shape, nullptr, nullptr, 0.0f, {}, pool, 0);
    backend.attend(*qkv, shape, 1.0f / std::sqrt(static_cast<float>(shape.head_dim)), pool, 0,
                   *out);
    Rows result(static_cast<std::size_t>(step.num_tokens()) * out->width());
    backend.download(*out, step.num_tokens(), result);
    return result;
  }
};

std::unique_ptr<Backend> make_cpu(const char* isa, int threads, KvDType kv = KvDType::kBF16) {
  BackendOptions options;
  options.isa = isa;
  options.num_threads = threads;
  options.kv_dtype = kv;
  return test::make_cpu(options);
}

double largest_difference(const Rows& a, const Rows& b) {
  double largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

// The context with every 32 dims of a key or value rounded to 8-bit integers times amax / 127.
Context rounded_to_int8(Context context) {
  const QkvShape& shape = context.shape;
  for (int row = 0; row < context.length; ++row)
    for (int head = 0; head < 2 * shape.num_kv_heads; ++head)
      for (int d = 0; d < shape.head_dim; d += kKvScaleDims) {
        float* x = context.qkv.data() + row * shape.qkv_width() +
                   (shape.num_heads + head) * shape.head_dim + d;
        const int count = std::min(kKvScaleDims, shape.head_dim - d);
        float largest = 0;
        for (int i = 0; i < count; ++i) largest = std::max(largest, std::abs(x[i]));
        const float scale = largest / 127.0f, inverse = 127.0f / largest;
        for (int i = 0; i < count; ++i) x[i] = std::nearbyint(x[i] * inverse) * scale;
      }
  return context;
}

std::vector<int> ones(int count) {
  return std::vector<int>(count, 1);
}

}  // namespace

class TestAttention : public QObject {
  Q_OBJECT
 private slots:
  void matchesTheReference();
  void chunksBlocksThreadsAndNeighboursDoNotChangeABit();
  void aZeroThatUnderflowedHasNoSign();
  void everyInstructionSetGivesTheSameBits();
  void aWindowSeesOnlyTheLastPositions();
  void int8KeepsValuesRoundedInBlocksOf32();
  void aDamagedTokenSpoilsWhatSeesItAndNothingElse();
  void blocksMoveAsOpaqueBytes_data();
  void blocksMoveAsOpaqueBytes();
  void noMoveTouchesTheScratchBlock();
};

// With K and V kept in float32 only the order of the additions differs: softmax weights sum to one,
// values are about normal, so 1e-5 is some 80 roundings. BF16 keeps 8 bits of K and V, and
// attention over it as many of queries and weights: a score, a sum of head_dim products of about
// unit variance over sqrt(head_dim), moves by about 2^-9 times its size for each of K and the
// query, and values and weights by 2^-9. F16 keeps 11 bits of K and V alone: less than an eighth of
// that. Int8 moves a value by at most half a step, amax / 254, amax about 3 of 32 normal numbers:
// values by 0.012, and scores, whose errors add up as those of head_dim values over sqrt(head_dim),
// by about as much; its bound allows eight times that.
void TestAttention::matchesTheReference() {
  Random random(20);
  const auto reference = make_reference_backend();
  for (const QkvShape shape : {QkvShape{4, 4, 32}, {9, 3, 64}, {8, 2, 80}, {8, 1, 128}}) {
    const Context context(shape, 150, random);
    const Rows expected = Runner{*reference}.run(context, {150});
    for (const char* isa : {"scalar", "avx2", "avx512", "amx"}) {
      const auto exact = make_cpu(isa, 2, KvDType::kF32);
      if (!exact) continue;
      QVERIFY(largest_difference(Runner{*exact}.run(context, {150}), expected) < 1e-5);
      const auto rounded = make_cpu(isa, 2);
      QVERIFY(largest_difference(Runner{*rounded}.run(context, {150}), expected) < 0.05);
      const auto half = make_cpu(isa, 2, KvDType::kF16);
      QVERIFY(largest_difference(Runner{*half}.run(context, {150}), expected) < 0.05 / 8);
      const auto eight = make_cpu(isa, 2, KvDType::kInt8);
      QVERIFY(largest_difference(Runner{*eight}.run(context, {150}), expected) < 0.1);
    }
  }
}

void TestAttention::chunksBlocksThreadsAndNeighboursDoNotChangeABit() {
  Random random(21);
  const std::string isa = detect_isa();
  for (const QkvShape shape : {QkvShape{9, 3, 64}, {4, 4, 32}, {8, 1, 48}}) {
    const Context context(shape, 300, random);
    const auto backend = make_cpu(isa.c_str(), 2);
    const Rows expected = Runner{*backend}.run(context, {300});
    QVERIFY(same_bits(Runner{*backend}.run(context, {1, 17, 128, 127, 27}), expected));
    if (shape.num_kv_heads == 3)
      QVERIFY(same_bits(Runner{*backend}.run(context, ones(300)), expected));
    QVERIFY(same_bits(Runner{*backend, 16, true}.run(context, {100, 200}), expected));
    QVERIFY(same_bits(Runner{*backend, 16, true, 5, 3}.run(context, {200, 100}), expected));
    for (const int block_size : {4, 8, 24, 32, 128})
      QVERIFY(same_bits(Runner{*backend, block_size, true}.run(context, {99, 201}), expected));
    for (const int threads : {1, 3, 4})
      QVERIFY(same_bits(Runner{*make_cpu(isa.c_str(), threads)}.run(context, {299, 1}), expected));
  }
}

// Query 191 is the last that sees nothing of the step of 32 positions from 192 on, which is worked
// on all the same when it comes with 192. What it sees of its span adds up to a negative number too
// small to be one, and so does the span before once its weight is taken down.
void TestAttention::aZeroThatUnderflowedHasNoSign() {
  constexpr int kDim = 32;
  Random random(27);
  Context context({1, 1, kDim}, 194, random);
  std::ranges::fill(context.qkv, 0.0f);
  for (int position = 0; position < context.length; ++position) {
    float* q = &context.qkv[position * 3 * kDim];
    q[0] = 1;
    q[kDim] = position < 128 ? 0.0f : 64.0f;
    const float value = position == 5 || position == 160 ? -1.25e-38f : 1.20e-38f;
    if (position == 5 || position == 128 || position == 160) std::fill_n(q + 2 * kDim, kDim, value);
  }
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"})
    if (const auto backend = make_cpu(isa, 1))
      QVERIFY(same_bits(Runner{*backend}.run(context, {191, 3}),
                        Runner{*backend}.run(context, ones(194))));
}

void TestAttention::everyInstructionSetGivesTheSameBits() {
  Random random(22);
  for (const QkvShape shape : {QkvShape{6, 2, 64}, {2, 2, 40}}) {
    const Context context(shape, 140, random);
    for (const KvDType kv : {KvDType::kBF16, KvDType::kF16, KvDType::kF32, KvDType::kInt8}) {
      const Rows expected = Runner{*make_cpu("scalar", 2, kv)}.run(context, {140});
      for (const char* isa : {"avx2", "avx512", "amx"})
        if (const auto backend = make_cpu(isa, 2, kv))
          QVERIFY(same_bits(Runner{*backend}.run(context, {90, 50}), expected));
    }
  }
}

void TestAttention::aWindowSeesOnlyTheLastPositions() {
  Random random(23);
  const std::string isa = detect_isa();
  const Context context({4, 2, 32}, 290, random, 37);
  const Rows expected = Runner{*make_reference_backend()}.run(context, {290});
  const auto exact = make_cpu(isa.c_str(), 2, KvDType::kF32);
  const Rows whole = Runner{*exact}.run(context, {290});
  QVERIFY(largest_difference(whole, expected) < 1e-5);
  QVERIFY(same_bits(Runner{*exact, 8, true}.run(context, {140, 149, 1}), whole));
}

// The same bits as float32 of the rounded keys and values, whatever the chunks, blocks and threads.
void TestAttention::int8KeepsValuesRoundedInBlocksOf32() {
  Random random(25);
  const std::string isa = detect_isa();
  for (const QkvShape shape : {QkvShape{9, 3, 64}, {4, 4, 40}, {8, 1, 128}}) {
    const Context context(shape, 200, random, shape.head_dim == 40 ? 50 : 0);
    const Rows expected =
        Runner{*make_cpu(isa.c_str(), 2, KvDType::kF32)}.run(rounded_to_int8(context), {200});
    for (const int threads : {1, 3}) {
      const auto backend = make_cpu(isa.c_str(), threads, KvDType::kInt8);
      QVERIFY(same_bits(Runner{*backend}.run(context, {1, 60, 139}), expected));
      for (const int block_size : {5, 8, 24, 32})
        QVERIFY(
            same_bits(Runner{*backend, block_size, true, 2, 1}.run(context, {150, 50}), expected));
    }
  }
}

void TestAttention::aDamagedTokenSpoilsWhatSeesItAndNothingElse() {
  Random random(26);
  const QkvShape shape{4, 2, 64};
  const Context whole(shape, 40, random);
  const std::string isa = detect_isa();
  for (const KvDType kv : {KvDType::kBF16, KvDType::kF32, KvDType::kInt8})
    for (const bool in_value : {false, true})
      for (const float damage : {std::nanf(""), INFINITY, -INFINITY}) {
        Context damaged = whole;
        // The second KV head, that of query heads 2 and 3, of token 20.
        const int head = shape.num_heads + (in_value ? shape.num_kv_heads : 0) + 1;
        damaged.qkv[20 * shape.qkv_width() + head * shape.head_dim + 7] = damage;
        const auto backend = make_cpu(isa.c_str(), 2, kv);
        const Rows good = Runner{*backend}.run(whole, {40});
        const Rows bad = Runner{*backend}.run(damaged, {40});
        for (int row = 0; row < 40; ++row)
          for (int h = 0; h < shape.num_heads; ++h) {
            const auto at = static_cast<std::size_t>(row * shape.num_heads + h) * shape.head_dim;
            if (row < 20 || h < 2)
              QVERIFY(std::memcmp(&good[at], &bad[at], shape.head_dim * sizeof(float)) == 0);
            else if (in_value || std::isnan(damage))
              QVERIFY(!std::isfinite(bad[at + 7]));
          }
      }
}

void TestAttention::blocksMoveAsOpaqueBytes_data() {
  QTest::addColumn<QString>("backend");
  QTest::addColumn<int>("block_size");
  for (const char* backend : {"reference", "cpu", "cpu f32", "cpu int8"})
    for (const int block_size : {1, 8, 16, 24})
      QTest::addRow("%s, blocks of %d", backend, block_size) << backend << block_size;
}

// A copied or restored block equals its source in every layer and plane; no other block changes.
void TestAttention::blocksMoveAsOpaqueBytes() {
  QFETCH(QString, backend);
  QFETCH(int, block_size);
  Random random(24);
  const KvSpec spec{{{2, 33, 0}, {1, 64, 0}}};
  const auto table = backend == "reference" ? make_reference_backend()
                                            : make_cpu("", 1,
                                                       backend == "cpu"        ? KvDType::kBF16
                                                       : backend == "cpu int8" ? KvDType::kInt8
                                                                               : KvDType::kF32);
  const auto pool = table->allocate_kv(spec, 4, block_size);
  QCOMPARE(pool->bytes_per_block(), table->kv_bytes_per_block(spec, block_size));
  std::vector<std::vector<std::byte>> expected(4);
  const auto unchanged = [&] {
    std::vector<std::byte> read(pool->bytes_per_block());
    for (int block = 0; block < 4; ++block) {
      pool->read_block(block, read);
      if (read != expected[block]) return false;
    }
    return true;
  };
  for (int block = 0; block < 4; ++block) {
    expected[block].resize(pool->bytes_per_block());
    for (std::byte& byte : expected[block]) byte = static_cast<std::byte>(random.below(256));
    pool->write_block(block, expected[block]);
  }
  QVERIFY(unchanged());
  pool->copy_block(3, 0);
  expected[0] = expected[3];
  QVERIFY(unchanged());
  pool->copy_block(1, 1);
  QVERIFY(unchanged());
  std::fill(expected[3].begin(), expected[3].end(), std::byte{0});
  pool->write_block(3, expected[3]);
  QVERIFY(unchanged());
  pool->poison();
  QVERIFY(!unchanged());
}

void TestAttention::noMoveTouchesTheScratchBlock() {
  reference::ReferenceKvPool pool({{{2, 8, 0}, {1, 4, 0}}}, 3, 4);
  pool.poison();
  const std::vector<std::byte> zero(pool.bytes_per_block());
  for (int block = 0; block < 3; ++block) pool.write_block(block, zero);
  pool.copy_block(0, 2);
  for (int layer = 0; layer < 2; ++layer) {
    QVERIFY(std::isnan(*pool.key(layer, -1, 0)) && std::isnan(*pool.value(layer, -1, 0)));
    QCOMPARE(*pool.key(layer, 11, 0), 0.0f);
  }
}

QUIRE_TEST(TestAttention)
#include "tst_attention.moc"
