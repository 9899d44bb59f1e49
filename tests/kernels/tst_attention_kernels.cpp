#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/span_scratch.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/kernel_fixtures.h"
#include "tests/support/test_main.h"

using namespace quire;
using namespace quire::cpu;
using namespace quire::test;

namespace {

using Rows = std::vector<float>;

std::vector<std::uint8_t> stored(KvDType type, std::size_t count, Random& random) {
  std::vector<std::uint8_t> bytes(count * kv_element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    const float x = random.normal();
    const std::uint16_t half = type == KvDType::kF16 ? float_to_half(x) : float_to_bf16(x);
    const auto eight = static_cast<std::int8_t>(random.below(255) - 127);
    if (type == KvDType::kF32)
      std::memcpy(bytes.data() + 4 * i, &x, 4);
    else if (type == KvDType::kInt8)
      std::memcpy(bytes.data() + i, &eight, 1);
    else
      std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

// One span of keys and values, and queries that see a random part of it each.
struct Span {
  KvDType type;
  int dim, group, queries, padded = (dim + 15) / 16 * 16, scales = kv_num_scales(type, dim);
  Rows q;
  std::vector<std::uint16_t> q_bf16;
  std::vector<std::uint8_t> keys, values;
  Rows key_scales, value_scales;
  std::vector<int> begin, end;

  Span(KvDType stored_type, int head_dim, int heads, int num_queries, Random& random)
      : type(stored_type),
        dim(head_dim),
        group(heads),
        queries(num_queries),
        q(random.normals((num_queries * heads + kSpareRows) * padded, 0.3f)),
        keys(stored(stored_type, kSpan * head_dim, random)),
        values(stored(stored_type, kSpan * head_dim, random)),
        key_scales(random.normals(kSpan * scales, 0.01f)),
        value_scales(random.normals(kSpan * scales, 0.01f)) {
    for (int i = 0; i < queries; ++i) {
      begin.push_back(random.below(3) == 0 ? random.below(kSpan) : 0);
      end.push_back(begin.back() + 1 + random.below(kSpan - begin.back()));
    }
    if (type != KvDType::kBF16) return;
    scalar_kernels().round_row(q.data(), static_cast<std::int64_t>(q.size()), q.data());
    for (const float x : q) q_bf16.push_back(float_to_bf16(x));
  }

  float number(const std::vector<std::uint8_t>& bf16, std::size_t index) const {
    std::uint16_t bits;
    std::memcpy(&bits, bf16.data() + 2 * index, 2);
    return bf16_to_float(bits);
  }
  float key(int position, int d) const {
    return number(keys, (position / 16 * dim + d) * 16 + position % 16);
  }
  float value(int position, int d) const { return number(values, position * dim + d); }
  // Whatever is not a number or infinite.
  void damage_value(int position, int d, Random& random) {
    constexpr std::uint16_t kBits[] = {0x7f80, 0xff80, 0x7fc0, 0xffff, 0x7f81};
    const std::uint16_t bits = kBits[random.below(5)];
    std::memcpy(values.data() + 2 * (position * dim + d), &bits, 2);
  }
  void damage_key(int position, int d) {
    const std::uint16_t nan = 0x7fff;
    std::memcpy(keys.data() + 2 * ((position / 16 * dim + d) * 16 + position % 16), &nan, 2);
  }

  // Outputs, largest scores and totals of queries [first, first + count).
  Rows attend(const KernelTable& table, int first, int count) const {
    const FlushDenormals flush;
    const int rows = count * group;
    SpanScratch scratch(rows, padded, std::nanf(""));
    SpanArgs args;
    args.head_dim = dim;
    args.padded_dim = padded;
    args.group = group;
    args.queries = count;
    args.q = q.data() + first * group * padded;
    args.q_bf16 = q_bf16.data() + (type == KvDType::kBF16 ? first * group * padded : 0);
    for (int t = 0; t < kSpan / 16; ++t) {
      const std::size_t at = static_cast<std::size_t>(t) * 16 * dim * kv_element_bytes(type);
      args.tiles[t] = {keys.data() + at, values.data() + at, key_scales.data() + t * 16 * scales,
                       value_scales.data() + t * 16 * scales};
      args.next_keys[t] = args.tiles[t].keys;
    }
    args.begin = begin.data() + first;
    args.end = end.data() + first;
    scratch.lend(args);
    table.attention->attend_span[static_cast<int>(type)](args);
    if (table.end_job) table.end_job();
    Rows result;
    for (int row = 0; row < rows; ++row) {
      const float* out = scratch.out.data() + row * padded;
      result.insert(result.end(), out, out + dim);
      result.push_back(scratch.largest[row]);
      result.push_back(scratch.total[row]);
    }
    return result;
  }
};

// Outputs, largest score and total of one row of BF16 attention, from the formula alone: no lanes,
// no tiles, no steps but those it states.
Rows by_definition(const Span& span, int row) {
  const FlushDenormals flush;
  const int query = row / span.group, begin = span.begin[query], end = span.end[query];
  const float* q = span.q.data() + row * span.padded;
  const auto chains = [](int count, const auto& a, const auto& b) {
    float sum = 0;
    for (int step = 0; step < count; step += kPairStep) {
      float of[2] = {};
      for (int i = step; i < std::min(step + kPairStep, count); ++i)
        of[i % 2] = std::fma(a(i), b(i), of[i % 2]);
      sum += of[0] + of[1];
    }
    return sum;
  };
  Rows scores(kSpan, -INFINITY), weights(kSpan);
  for (int p = begin; p < end; ++p)
    scores[p] = chains(
        span.dim, [&](int d) { return span.key(p, d); }, [&](int d) { return q[d]; });
  const float largest = *std::max_element(scores.begin(), scores.end());
  Rows shifted(kSpan);
  for (int p = 0; p < kSpan; ++p) shifted[p] = scores[p] - largest;
  scalar_kernels().exp(shifted.data(), weights.data(), kSpan);
  scalar_kernels().round_row(weights.data(), kSpan, weights.data());
  float lanes[16] = {};
  for (int p = begin / 16 * 16; p < end; ++p) lanes[p % 16] += weights[p];
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  Rows result;
  for (int d = 0; d < span.dim; ++d)
    result.push_back(chains(
        kSpan, [&](int p) { return p < begin || p >= end ? 0.0f : span.value(p, d); },
        [&](int p) { return weights[p]; }));
  result.push_back(largest);
  result.push_back(lanes[0]);
  return result;
}

}  // namespace

class TestAttentionKernels : public QObject {
  Q_OBJECT
 private slots:
  void everyInstructionSetGivesTheScalarBits();
  void bf16SumsAreTheDefinitions();
  void whatARowDoesNotSeeMayBeAnything();
  void aQueryIsTheSameAloneAndAmongOthers();
};

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&scalar_kernels());
  return tables;
}

// Up to 6 rows (AVX2) or 12 (AVX-512) read what is stored; more, and head dims that are not a
// multiple of 16, go over floats. BF16 goes over tiles (AMX) from 8 rows on, 64 at a time.
void TestAttentionKernels::everyInstructionSetGivesTheScalarBits() {
  Random random(70);
  for (int type = 0; type < kNumKvDTypes; ++type)
    for (const int dim : {32, 64, 80, 40})
      for (const auto& [group, queries] : {std::pair{1, 1},
                                           {2, 1},
                                           {3, 1},
                                           {4, 1},
                                           {5, 1},
                                           {1, 6},
                                           {8, 1},
                                           {3, 4},
                                           {3, 7},
                                           {70, 1},
                                           {5, 27}}) {
        const Span span(static_cast<KvDType>(type), dim, group, queries, random);
        const Rows expected = span.attend(scalar_kernels(), 0, queries);
        for (const KernelTable* table : simd_tables())
          QVERIFY2(same_bits(span.attend(*table, 0, queries), expected),
                   qPrintable(QString("%1, type %2, dim %3, %4 x %5")
                                  .arg(table->name)
                                  .arg(type)
                                  .arg(dim)
                                  .arg(group)
                                  .arg(queries)));
      }
}

void TestAttentionKernels::bf16SumsAreTheDefinitions() {
  Random random(72);
  for (const int dim : {16, 33, 40, 64, 80, 128})
    for (const auto& [group, queries] : {std::pair{1, 1}, {2, 1}, {3, 1}, {6, 1}, {3, 5}, {4, 8}}) {
      const Span span(KvDType::kBF16, dim, group, queries, random);
      Rows expected;
      for (int row = 0; row < group * queries; ++row) {
        const Rows one = by_definition(span, row);
        expected.insert(expected.end(), one.begin(), one.end());
      }
      for (const KernelTable* table : all_tables())
        QVERIFY2(
            same_bits(span.attend(*table, 0, queries), expected),
            qPrintable(
                QString("%1, dim %2, %3 x %4").arg(table->name).arg(dim).arg(group).arg(queries)));
    }
}

// Positions no query sees, and one that only the later queries see.
void TestAttentionKernels::whatARowDoesNotSeeMayBeAnything() {
  Random random(73);
  for (const int group : {1, 3, 8})
    for (int round = 0; round < 8; ++round) {
      const int queries = 2 + random.below(11), later = 1 + random.below(queries - 1);
      Span span(KvDType::kBF16, 64, group, queries, random);
      const int position = 40 + random.below(40);
      for (int i = 0; i < queries; ++i) {
        span.begin[i] = random.below(35);
        span.end[i] = (i < later ? span.begin[i] : position) + 1 + random.below(5);
      }
      const Rows clean = span.attend(scalar_kernels(), 0, later);
      for (int p = position + 5; p < kSpan; ++p) {
        span.damage_value(p, random.below(64), random);
        span.damage_key(p, random.below(64));
      }
      const Rows stale = span.attend(scalar_kernels(), 0, queries);
      span.damage_value(position, 7, random);
      span.damage_key(position + random.below(2), 9);
      for (const KernelTable* table : all_tables()) {
        Rows damaged = span.attend(*table, 0, queries);
        damaged.resize(clean.size());
        QVERIFY(same_bits(damaged, clean));
      }
      QVERIFY(std::ranges::all_of(stale, [](float x) { return std::isfinite(x); }));
    }
}

void TestAttentionKernels::aQueryIsTheSameAloneAndAmongOthers() {
  Random random(71);
  for (const KernelTable* table : all_tables())
    for (int type = 0; type < kNumKvDTypes; ++type)
      for (const int queries : {2, 9, 20}) {
        const Span span(static_cast<KvDType>(type), 64, 3, queries, random);
        Rows alone;
        for (int i = 0; i < queries; ++i) {
          const Rows one = span.attend(*table, i, 1);
          alone.insert(alone.end(), one.begin(), one.end());
        }
        QVERIFY(same_bits(span.attend(*table, 0, queries), alone));
      }
}

QUIRE_TEST(TestAttentionKernels)
#include "tst_attention_kernels.moc"
