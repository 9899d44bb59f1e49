#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace quire::cpu {
namespace {

constexpr int kTile = 16;
constexpr std::size_t kLine = 64;  // of the caches

int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

void store_partial(float* partial, int group, int padded_dim, const float* out,
                   const float* largest, const float* total) {
  partial = std::copy_n(out, group * padded_dim, partial);
  partial = std::copy_n(largest, group, partial);
  std::copy_n(total, group, partial);
}

}  // namespace

struct Attention::Call {
  const CpuBuffer& qkv;
  const QkvShape& shape;
  float scale;
  const CpuKvPool& cache;
  int layer;
  CpuBuffer& out;
  const Plan& plan;
  int group, padded_dim, max_rows;
  float* partials;

  // A partial result: [group, padded_dim] outputs, [group] largest scores, [group] totals.
  float* partial(int index, int kv_head) const {
    return partials + (static_cast<std::size_t>(index) * plan.kind.num_kv_heads + kv_head) *
                          plan.kind.partial_floats();
  }
  const Plan::Query& query(const Plan::Item& item, int i) const {
    return plan.queries[plan.item_queries[item.first + i]];
  }
  // Positions the query at `position` sees: [first_seen(position), position].
  int first_seen(int position) const {
    return plan.kind.window > 0 ? std::max(0, position - plan.kind.window + 1) : 0;
  }
  std::size_t scratch_floats() const {
    return static_cast<std::size_t>(max_rows + kSpareRows) * (4 * padded_dim + kSpan + 4) +
           static_cast<std::size_t>(kSpan) * padded_dim +
           static_cast<std::size_t>(kTile) * shape.head_dim +
           static_cast<std::size_t>(kSpan) * 2 * (shape.head_dim + cache.num_scales(layer)) + 16;
  }
};

struct Attention::Scratch {
  // With kSpareRows after max_rows:
  float *q, *span_out, *out;                           // [max_rows, padded_dim]
  std::uint16_t* q_bf16;                               // [max_rows, padded_dim]
  float* scores;                                       // [max_rows, kSpan]
  float *span_largest, *span_total, *largest, *total;  // [max_rows]
  float *keys, *values;                                // [head_dim, 16], [kSpan, padded_dim]
  // Tiles gathered from pieces, as stored: [kSpan * head_dim] and [kSpan * scales] each.
  float *gathered_keys, *gathered_values, *gathered_key_scales, *gathered_value_scales;
  StoredTile tiles[kSpan / kTile];
  const std::uint8_t* keys_ahead[kSpan / kTile];
  std::vector<int> begin, end;  // per query

  Scratch(const Call& call, float* memory) : begin(call.max_rows), end(call.max_rows) {
    const auto take = [&memory](std::size_t floats) {
      float* start = memory;
      memory += floats;
      return start;
    };
    const std::size_t rows = call.max_rows + kSpareRows, dim = call.padded_dim;
    keys = take(static_cast<std::size_t>(kTile) * call.shape.head_dim);
    values = take(kSpan * dim);
    q = take(rows * dim);
    q_bf16 = reinterpret_cast<std::uint16_t*>(take(rows * dim / 2));
    span_out = take(rows * dim);
    out = take(rows * dim);
    scores = take(rows * kSpan);
    for (float** elements : {&gathered_keys, &gathered_values})
      *elements = take(static_cast<std::size_t>(kSpan) * call.shape.head_dim);
    for (float** scales : {&gathered_key_scales, &gathered_value_scales})
      *scales = take(static_cast<std::size_t>(kSpan) * call.cache.num_scales(call.layer));
    span_largest = take(rows);
    span_total = take(rows);
    largest = take(rows);
    total = take(rows);
  }

  // Copies `width` positions to the tile's positions [first, first + width).
  StoredTile gather(const StoredTile& piece, int tile, int first, int width, std::size_t dim,
                    std::size_t element, std::size_t scales) {
    const std::size_t at = static_cast<std::size_t>(tile) * kTile;
    auto* k = reinterpret_cast<std::uint8_t*>(gathered_keys) + at * dim * element;
    auto* v = reinterpret_cast<std::uint8_t*>(gathered_values) + at * dim * element;
    float* key_scale = gathered_key_scales + at * scales;
    float* value_scale = gathered_value_scales + at * scales;
    for (std::size_t d = 0; d < dim; ++d)
      std::memcpy(k + (d * kTile + first) * element, piece.keys + d * width * element,
                  width * element);
    std::memcpy(v + first * dim * element, piece.values, width * dim * element);
    for (std::size_t i = 0; i < scales; ++i)
      std::copy_n(piece.key_scales + i * width, width, key_scale + i * kTile + first);
    std::copy_n(piece.value_scales, scales * width, value_scale + first * scales);
    return {k, v, key_scale, value_scale};
  }

  void clear(int rows, int padded_dim) {
    std::fill_n(out, rows * padded_dim, 0.0f);
    std::fill_n(total, rows, 0.0f);
    std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
  }
};

const AttentionPlan& Attention::plan_of(const BatchView& batch, const AttentionKind& kind,
                                        int block_size) {
  for (int i = 0; i < num_plans_; ++i)
    if (plans_[i].kind == kind) return plans_[i];
  if (num_plans_ == static_cast<int>(plans_.size())) plans_.emplace_back();
  Plan& plan = plans_[num_plans_++];
  plan.build(batch, kind,
             {.block_size = block_size, .num_threads = pool_.num_threads(), .share = cascade_});
  return plan;
}

void Attention::run(const BatchView& batch, const CpuBuffer& qkv, const QkvShape& shape,
                    float scale, const CpuKvPool& cache, int layer, CpuBuffer& out) {
  QUIRE_CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0, shape.num_heads,
              shape.num_kv_heads);
  const int group = shape.num_heads / shape.num_kv_heads;
  const int padded_dim = round_up(shape.head_dim, kTile), heads = shape.num_kv_heads;
  const Plan& plan =
      plan_of(batch, {cache.layer(layer).window, group, heads, padded_dim}, cache.block_size());
  for (const int row : plan.padding_rows) std::fill_n(out.row(row), out.width(), 0.0f);
  partials_.reserve(plan.partial_bytes());
  const std::size_t counters = static_cast<std::size_t>(plan.num_splits) * heads;
  if (remaining_.size() < counters) remaining_ = std::vector<std::atomic<int>>(counters);
  for (const Plan::Query& query : plan.queries)
    for (int head = 0; query.split >= 0 && head < heads; ++head)
      remaining_[query.split * heads + head].store(query.items, std::memory_order_relaxed);

  const Call call{qkv,
                  shape,
                  scale,
                  cache,
                  layer,
                  out,
                  plan,
                  group,
                  padded_dim,
                  std::max(Plan::kRowsPerItem, group),
                  partials_.as<float>()};
  const std::size_t floats = round_up(static_cast<int>(call.scratch_floats()), kTile);
  scratch_.reserve(floats * sizeof(float) * pool_.num_threads());
  pool_.run(static_cast<std::int64_t>(plan.items.size()) * heads, [&](int index, int thread) {
    Scratch scratch(call, scratch_.as<float>() + floats * thread);
    run_item(call, plan.items[index / heads], index % heads, scratch);
  });
}

void Attention::load_queries(const Call& call, const Plan::Item& item, int kv_head,
                             Scratch& scratch) const {
  const int dim = call.shape.head_dim;
  float* target = scratch.q;
  for (int i = 0; i < item.count; ++i) {
    const float* heads = call.qkv.row(call.query(item, i).row) + kv_head * call.group * dim;
    for (int h = 0; h < call.group; ++h, target += call.padded_dim) {
      for (int d = 0; d < dim; ++d) target[d] = heads[h * dim + d] * call.scale;
      std::fill(target + dim, target + call.padded_dim, 0.0f);
    }
  }
  if (call.cache.dtype() == KvDType::kBF16)
    kernels_.round_queries(scratch.q, target - scratch.q, scratch.q_bf16);
}

// The tiles of span `index` that hold positions [begin, end): where they lie in the pool, or, of
// blocks that are not whole tiles, copies of those positions in the scratch memory.
void Attention::find_tiles(const Call& call, const std::int32_t* blocks, int kv_head, int index,
                           int begin, int end, Scratch& scratch) const {
  const CpuKvPool& cache = call.cache;
  const int dim = call.shape.head_dim, block_size = cache.block_size(), width = cache.run();
  const std::size_t element = kv_element_bytes(cache.dtype());
  const std::size_t scales = cache.num_scales(call.layer), scales_at = cache.scales_at(call.layer);
  const auto floats = [](const std::uint8_t* bytes) {
    return reinterpret_cast<const float*>(bytes);
  };
  for (int p = begin / width * width; p < end; p += width) {
    const int position = index * kSpan + p, offset = position % block_size;
    const std::int32_t block = blocks[position / block_size];
    QUIRE_CHECK(block >= 0 && block < cache.num_blocks(), block, cache.num_blocks());
    const std::uint8_t* keys = cache.keys(call.layer, block, kv_head);
    const std::uint8_t* values = cache.values(call.layer, block, kv_head);
    const StoredTile piece{keys + offset * dim * element, values + offset * dim * element,
                           floats(keys + scales_at) + offset * scales,
                           floats(values + scales_at) + offset * scales};
    StoredTile& tile = scratch.tiles[p / kTile];
    if (width == kTile)
      tile = piece;
    else
      tile = scratch.gather(piece, p / kTile, p % kTile, width, dim, element, scales);
  }
}

// Where the keys of each tile of span `index` begin, as far as the item's queries see any.
std::span<const std::uint8_t* const> Attention::keys_ahead(const Call& call, const Plan::Item& item,
                                                           int kv_head, int index,
                                                           Scratch& scratch) const {
  const CpuKvPool& cache = call.cache;
  const int block_size = cache.block_size(), first = index * kSpan;
  const int last = call.query(item, item.count - 1).position;
  const int end = index < item.span_end ? std::min(last + 1, first + kSpan) : first;
  int count = 0;
  for (int p = first; p < end; p += kTile)
    scratch.keys_ahead[count++] =
        cache.keys(call.layer, item.blocks[p / block_size], kv_head) +
        p % block_size * call.shape.head_dim * kv_element_bytes(cache.dtype());
  return {scratch.keys_ahead, static_cast<std::size_t>(count)};
}

// Computes span `index` for the item's queries [first_query, end_query) that see some of it; false
// when none does.
bool Attention::span(const Call& call, const Plan::Item& item, int kv_head, int index,
                     Scratch& scratch, int& first_query, int& end_query) const {
  const int base = index * kSpan;
  first_query = item.count;
  end_query = 0;
  int lowest = kSpan, highest = 0;
  for (int i = 0; i < item.count; ++i) {
    const int position = call.query(item, i).position;
    scratch.begin[i] = std::max(0, call.first_seen(position) - base);
    scratch.end[i] = std::min(kSpan, position + 1 - base);
    if (scratch.begin[i] >= scratch.end[i]) continue;
    first_query = std::min(first_query, i);
    end_query = i + 1;
    lowest = std::min(lowest, scratch.begin[i]);
    highest = std::max(highest, scratch.end[i]);
  }
  if (first_query >= end_query) return false;
  find_tiles(call, item.blocks, kv_head, index, lowest, highest, scratch);
  const int row = first_query * call.group;
  SpanArgs args;
  args.head_dim = call.shape.head_dim;
  args.padded_dim = call.padded_dim;
  args.group = call.group;
  args.queries = end_query - first_query;
  args.q = scratch.q + row * call.padded_dim;
  args.q_bf16 = scratch.q_bf16 + row * call.padded_dim;
  std::ranges::copy(scratch.tiles, args.tiles);
  std::ranges::transform(scratch.tiles, args.next_keys, &StoredTile::keys);
  std::ranges::copy(keys_ahead(call, item, kv_head, index + 1, scratch), args.next_keys);
  args.begin = scratch.begin.data() + first_query;
  args.end = scratch.end.data() + first_query;
  args.scores = scratch.scores;
  args.key_floats = scratch.keys;
  args.value_floats = scratch.values;
  args.largest = scratch.span_largest + row;
  args.total = scratch.span_total + row;
  args.out = scratch.span_out + row * call.padded_dim;
  kernels_.attend_span[static_cast<int>(call.cache.dtype())](args);
  return true;
}

void Attention::run_item(const Call& call, const Plan::Item& item, int kv_head, Scratch& scratch) {
  const int group = call.group, dim = call.padded_dim;
  const std::size_t tile_bytes = kTile * call.shape.head_dim * kv_element_bytes(call.cache.dtype());
  // Not in a function of its own: g++ 12 drops calls of one that only prefetches.
  for (const std::uint8_t* keys : keys_ahead(call, item, kv_head, item.span_begin, scratch))
    for (std::size_t i = 0; i < tile_bytes; i += kLine) __builtin_prefetch(keys + i);
  load_queries(call, item, kv_head, scratch);
  scratch.clear(item.count * group, dim);
  for (int index = item.span_begin; index < item.span_end; ++index) {
    int first = 0, end = 0;
    if (!span(call, item, kv_head, index, scratch, first, end)) continue;
    for (int i = first; i < end; ++i) {
      const Plan::Query& query = call.query(item, i);
      const int row = i * group;
      if (item.leads(query))
        merge(call, row, scratch.span_out + row * dim, scratch.span_largest + row,
              scratch.span_total + row, scratch);
      else
        store_partial(call.partial(query.partial_of(index), kv_head), group, dim,
                      scratch.span_out + row * dim, scratch.span_largest + row,
                      scratch.span_total + row);
    }
  }
  for (int i = 0; i < item.count; ++i) {
    const Plan::Query& query = call.query(item, i);
    if (!item.holds(query)) continue;
    const int row = i * group;
    if (query.split < 0) {
      finish(call, query, kv_head, row, scratch);
      continue;
    }
    if (item.leads(query))
      store_partial(call.partial(query.first_partial, kv_head), group, dim, scratch.out + row * dim,
                    scratch.largest + row, scratch.total + row);
    std::atomic<int>& remaining = remaining_[query.split * call.plan.kind.num_kv_heads + kv_head];
    if (remaining.fetch_sub(1, std::memory_order_acq_rel) == 1)
      finish_split(call, query, kv_head, row, scratch);
  }
}

// Folds a later span of one query into its rows' results so far.
void Attention::merge(const Call& call, int first_row, const float* out, const float* largest,
                      const float* total, Scratch& scratch) const {
  for (int h = 0; h < call.group; ++h)
    kernels_.merge_span(scratch.largest[first_row + h], scratch.total[first_row + h],
                        scratch.out + (first_row + h) * call.padded_dim, largest[h], total[h],
                        out + h * call.padded_dim, call.padded_dim);
}

void Attention::finish_split(const Call& call, const Plan::Query& query, int kv_head, int first_row,
                             Scratch& scratch) const {
  const int group = call.group, outputs = group * call.padded_dim;
  const float* partial = call.partial(query.first_partial, kv_head);
  std::copy_n(partial, outputs, scratch.out + first_row * call.padded_dim);
  std::copy_n(partial + outputs, group, scratch.largest + first_row);
  std::copy_n(partial + outputs + group, group, scratch.total + first_row);
  for (int i = 1; i < query.num_partials(); ++i) {
    partial = call.partial(query.first_partial + i, kv_head);
    merge(call, first_row, partial, partial + outputs, partial + outputs + group, scratch);
  }
  finish(call, query, kv_head, first_row, scratch);
}

void Attention::finish(const Call& call, const Plan::Query& query, int kv_head, int first_row,
                       const Scratch& scratch) const {
  const int dim = call.shape.head_dim;
  float* heads = call.out.row(query.row) + kv_head * call.group * dim;
  for (int h = 0; h < call.group; ++h) {
    const float* out = scratch.out + (first_row + h) * call.padded_dim;
    // An underflow's zero has a sign of the chunk's; adding zero takes it away.
    for (int d = 0; d < dim; ++d) heads[h * dim + d] = out[d] / scratch.total[first_row + h] + 0.0f;
  }
}

}  // namespace quire::cpu
