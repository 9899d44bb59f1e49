#include <cmath>
#include <cstring>

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
  std::vector<std::uint8_t> keys, values;
  Rows key_scales, value_scales;
  std::vector<int> begin, end;

  Span(KvDType stored_type, int head_dim, int heads, int num_queries, Random& random)
      : type(stored_type),
        dim(head_dim),
        group(heads),
        queries(num_queries),
        q(random.normals(num_queries * heads * padded, 0.3f)),
        keys(stored(stored_type, kSpan * head_dim, random)),
        values(stored(stored_type, kSpan * head_dim, random)),
        key_scales(random.normals(kSpan * scales, 0.01f)),
        value_scales(random.normals(kSpan * scales, 0.01f)) {
    for (int i = 0; i < queries; ++i) {
      begin.push_back(random.below(3) == 0 ? random.below(kSpan) : 0);
      end.push_back(begin.back() + 1 + random.below(kSpan - begin.back()));
    }
  }

  // Outputs, largest scores and totals of queries [first, first + count).
  Rows attend(const KernelTable& table, int first, int count) const {
    const FlushDenormals flush;
    const int rows = count * group;
    Rows scores(rows * kSpan), out(rows * padded), largest(rows), total(rows), k(dim * 16),
        v(kSpan * padded);
    SpanArgs args;
    args.head_dim = dim;
    args.padded_dim = padded;
    args.group = group;
    args.queries = count;
    args.q = q.data() + first * group * padded;
    for (int t = 0; t < kSpan / 16; ++t) {
      const std::size_t at = static_cast<std::size_t>(t) * 16 * dim * kv_element_bytes(type);
      args.tiles[t] = {keys.data() + at, values.data() + at, key_scales.data() + t * 16 * scales,
                       value_scales.data() + t * 16 * scales};
      args.next_keys[t] = args.tiles[t].keys;
    }
    args.begin = begin.data() + first;
    args.end = end.data() + first;
    args.scores = scores.data();
    args.key_floats = k.data();
    args.value_floats = v.data();
    args.largest = largest.data();
    args.total = total.data();
    args.out = out.data();
    table.attention->attend_span[static_cast<int>(type)](args);
    Rows result;
    for (int row = 0; row < rows; ++row) {
      result.insert(result.end(), out.begin() + row * padded, out.begin() + row * padded + dim);
      result.push_back(largest[row]);
      result.push_back(total[row]);
    }
    return result;
  }
};

bool same_bits(const Rows& a, const Rows& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

class TestAttentionKernels : public QObject {
  Q_OBJECT
 private slots:
  void everyInstructionSetGivesTheScalarBits();
  void aQueryIsTheSameAloneAndAmongOthers();
};

// Up to 6 rows (AVX2) or 12 (AVX-512) read what is stored; more, and head dims that are not a
// multiple of 16, go over floats.
void TestAttentionKernels::everyInstructionSetGivesTheScalarBits() {
  Random random(70);
  for (int type = 0; type < kNumKvDTypes; ++type)
    for (const int dim : {32, 64, 80, 40})
      for (const auto& [group, queries] :
           {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {1, 6}, {8, 1}, {3, 4}, {3, 7}}) {
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

void TestAttentionKernels::aQueryIsTheSameAloneAndAmongOthers() {
  Random random(71);
  std::vector<const KernelTable*> tables = simd_tables();
  tables.push_back(&scalar_kernels());
  for (const KernelTable* table : tables)
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
