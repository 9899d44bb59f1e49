#pragma once

#include <cstdint>

#include "kernels/kv_dtype.h"

// The inner loops of attention, per instruction set; kernel_table.h says what the sets have in
// common.
namespace quire::cpu {

inline constexpr int kSpan =
    128;  // positions of one attention span; spans start at multiples of it

inline constexpr int kPairStep = 32;  // dims, or positions, that BF16 attention adds at a time
// Rows past the last one that may be read, whatever they hold, and written.
inline constexpr int kSpareRows = 15;

// Keys and values of 16 neighbouring positions and one KV head, as a pool keeps them.
struct StoredTile {
  const std::uint8_t* keys = nullptr;    // [head_dim][16]
  const std::uint8_t* values = nullptr;  // [16][head_dim]
  const float* key_scales = nullptr;     // kInt8: [scales][16], scales = kv_num_scales(head_dim)
  const float* value_scales = nullptr;   // kInt8: [16][scales]
};

// The scores and weighted values of some query rows over one span of one KV head.
// Rows are grouped by query: row = query * group + head, and all rows of a query see the same keys.
struct SpanArgs {
  int head_dim = 0;
  int padded_dim = 0;  // head_dim rounded up to 16
  int group = 0;       // query heads per KV head
  int queries = 0;
  // [queries * group, padded_dim], scaled; with BF16 keys and values as round_queries() left them.
  const float* q = nullptr;
  const std::uint16_t* q_bf16 = nullptr;
  // Per 16 positions. Only tiles that some row sees are read, keys of other positions in them may
  // be anything, NaN included: their scores are selected away.
  StoredTile tiles[kSpan / 16];
  // Keys to fetch ahead: of the span that comes next, else of this one.
  const std::uint8_t* next_keys[kSpan / 16] = {};
  // Per query, the visible positions [begin, end) relative to the span; begin < end.
  const int* begin = nullptr;
  const int* end = nullptr;
  // Scratch, with kSpareRows of the first.
  float* scores = nullptr;        // [queries * group, 128]
  float* key_floats = nullptr;    // [head_dim][16]
  float* value_floats = nullptr;  // [128, padded_dim]
  // Results per row: the largest score, the sum of exp(score - largest), the weighted values.
  float* largest = nullptr;
  float* total = nullptr;
  float* out = nullptr;  // [queries * group, padded_dim], with kSpareRows
};

struct AttentionKernels {
  // Per type of the stored keys and values.
  void (*attend_span[kNumKvDTypes])(const SpanArgs& args);
  // Rounds q[count] to BF16, for BF16 keys and values, and stores it as that too where this table's
  // attend_span reads it. count is a multiple of 16.
  void (*round_queries)(float* q, std::int64_t count, std::uint16_t* q_bf16);
  // Folds a later span's result into an accumulated one: (largest, total, out[count]).
  void (*merge_span)(float& largest, float& total, float* out, float span_largest, float span_total,
                     const float* span_out, std::int64_t count);
};

extern const AttentionKernels kScalarAttention, kAvx2Attention, kAvx512Attention;

}  // namespace quire::cpu
