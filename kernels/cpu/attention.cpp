#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace quire::cpu {
namespace {

// Query rows (queries x group) that share a span's keys and values once these are floats: a
// multiple of every table's kRowsAtOnce.
constexpr int kRowsPerItem = 60;
constexpr int kTile = 16;
constexpr int kItemsPerThread = 4;

int round_up(int value, int to) {
  return (value + to - 1) / to * to;
}

}  // namespace

struct Attention::Call {
  const BatchView& batch;
  const CpuBuffer& qkv;
  const QkvShape& shape;
  float scale;
  const CpuKvPool& cache;
  int layer;
  CpuBuffer& out;
  int group, padded_dim, max_rows, window;

  // Positions the query at `position` sees: [first_seen(position), position].
  int first_seen(int position) const { return window > 0 ? std::max(0, position - window + 1) : 0; }
  std::size_t partial_floats() const {
    return static_cast<std::size_t>(group) * (padded_dim + kTile);
  }
  std::size_t scratch_floats() const {
    return static_cast<std::size_t>(max_rows) * (3 * padded_dim + kSpan + 4) +
           static_cast<std::size_t>(kSpan) * (padded_dim + shape.head_dim) +
           static_cast<std::size_t>(kTile) * shape.head_dim + 16;
  }
};

struct Attention::Scratch {
  float *q, *span_out, *out;                           // [max_rows, padded_dim]
  float* scores;                                       // [max_rows, kSpan]
  float *span_largest, *span_total, *largest, *total;  // [max_rows]
  float *keys, *values;         // [kSpan / 16, head_dim, 16], [kSpan, padded_dim]
  float* raw;                   // [head_dim, 16], pieces of a key tile
  std::vector<int> begin, end;  // per query

  Scratch(const Call& call, float* memory) : begin(call.max_rows), end(call.max_rows) {
    const auto take = [&memory](std::size_t floats) {
      float* start = memory;
      memory += floats;
      return start;
    };
    const std::size_t rows = call.max_rows, dim = call.padded_dim;
    keys = take(static_cast<std::size_t>(kSpan) * call.shape.head_dim);
    values = take(kSpan * dim);
    q = take(rows * dim);
    span_out = take(rows * dim);
    out = take(rows * dim);
    scores = take(rows * kSpan);
    raw = take(static_cast<std::size_t>(kTile) * call.shape.head_dim);
    span_largest = take(rows);
    span_total = take(rows);
    largest = take(rows);
    total = take(rows);
  }

  void clear(int rows, int padded_dim) {
    std::fill_n(out, rows * padded_dim, 0.0f);
    std::fill_n(total, rows, 0.0f);
    std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
  }
};

void Attention::run(const BatchView& batch, const CpuBuffer& qkv, const QkvShape& shape,
                    float scale, const CpuKvPool& cache, int layer, CpuBuffer& out) {
  QUIRE_CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0, shape.num_heads,
              shape.num_kv_heads);
  const int group = shape.num_heads / shape.num_kv_heads;
  const Call call{batch,
                  qkv,
                  shape,
                  scale,
                  cache,
                  layer,
                  out,
                  group,
                  round_up(shape.head_dim, kTile),
                  std::max(kRowsPerItem, group),
                  cache.layer(layer).window};
  plan(call);
  const std::size_t floats = round_up(static_cast<int>(call.scratch_floats()), kTile);
  scratch_.reserve(floats * sizeof(float) * pool_.num_threads());
  pool_.run(static_cast<std::int64_t>(work_.size()), [&](int item, int thread) {
    Scratch scratch(call, scratch_.as<float>() + floats * thread);
    const Work& work = work_[item];
    load_queries(call, work, scratch);
    if (work.split >= 0)
      run_split(call, work, scratch);
    else
      run_whole(call, work, scratch);
  });
}

void Attention::plan(const Call& call) {
  work_.clear();
  splits_.clear();
  const int queries = std::max(1, kRowsPerItem / call.group);
  std::int64_t items = 0;
  for (int r = 0; r < call.batch.num_reqs; ++r) {
    const int rows = call.batch.query_start_loc[r + 1] - call.batch.query_start_loc[r];
    items += (rows + queries - 1) / queries * call.shape.num_kv_heads;
  }
  const bool few = items < std::int64_t{kItemsPerThread} * pool_.num_threads();
  for (int r = 0; r < call.batch.num_reqs; ++r) plan_request(call, r, few);
  std::size_t partials = 0;
  for (Split& split : splits_) {
    split.partials = partials;
    partials += split.spans * call.partial_floats();
  }
  partials_.reserve(partials * sizeof(float));
  if (remaining_.size() < splits_.size())
    remaining_ = std::vector<std::atomic<int>>(splits_.size());
  for (std::size_t i = 0; i < splits_.size(); ++i) remaining_[i].store(splits_[i].spans);
}

void Attention::plan_request(const Call& call, int request, bool split_spans) {
  const BatchView& batch = call.batch;
  const int begin = batch.query_start_loc[request], end = batch.query_start_loc[request + 1];
  if (batch.seq_lens[request] == 0) {
    for (int row = begin; row < end; ++row) std::fill_n(call.out.row(row), call.out.width(), 0.0f);
    return;
  }
  const int first_position = batch.seq_lens[request] - (end - begin);
  QUIRE_CHECK(first_position >= 0, batch.seq_lens[request], begin, end);
  const int queries = std::max(1, kRowsPerItem / call.group);
  for (int row = begin; row < end; row += queries)
    for (int head = 0; head < call.shape.num_kv_heads; ++head) {
      Work work;
      work.blocks = batch.block_table + static_cast<std::int64_t>(request) * batch.max_blocks;
      work.kv_head = head;
      work.first_row = row;
      work.queries = std::min(queries, end - row);
      work.position = first_position + row - begin;
      work.span_begin = call.first_seen(work.position) / kSpan;
      work.span_end = (work.position + work.queries - 1) / kSpan + 1;
      const int spans = work.span_end - work.span_begin;
      if (!split_spans || work.queries > 1 || spans == 1) {
        work_.push_back(work);
        continue;
      }
      work.split = static_cast<int>(splits_.size());
      splits_.push_back({0, spans, work.span_begin});
      for (int i = 0; i < spans; ++i) {
        Work part = work;
        part.span_begin = work.span_begin + i;
        part.span_end = part.span_begin + 1;
        work_.push_back(part);
      }
    }
}

void Attention::load_queries(const Call& call, const Work& work, Scratch& scratch) const {
  const int dim = call.shape.head_dim;
  float* target = scratch.q;
  for (int i = 0; i < work.queries; ++i) {
    const float* heads = call.qkv.row(work.first_row + i) + work.kv_head * call.group * dim;
    for (int h = 0; h < call.group; ++h, target += call.padded_dim) {
      for (int d = 0; d < dim; ++d) target[d] = heads[h * dim + d] * call.scale;
      std::fill(target + dim, target + call.padded_dim, 0.0f);
    }
  }
}

// Positions [begin, end) of span `index` as floats. Whole key tiles are read, values only of
// positions in the range.
void Attention::expand(const Call& call, const Work& work, int index, int begin, int end,
                       Scratch& scratch) const {
  const CpuKvPool& cache = call.cache;
  const int dim = call.shape.head_dim, block_size = cache.block_size(), width = cache.run();
  const std::size_t element = dtype_info(cache.dtype()).block_bytes;
  const auto widen = [&](const std::uint8_t* source, float* target, int count) {
    if (cache.dtype() == DType::kBF16)
      kernels_.expand_bf16(reinterpret_cast<const std::uint16_t*>(source), target, count);
    else if (cache.dtype() == DType::kF16)
      kernels_.expand_f16(reinterpret_cast<const std::uint16_t*>(source), target, count);
    else
      std::memcpy(target, source, count * sizeof(float));
  };
  const auto block_at = [&](int position) {
    const std::int32_t block = work.blocks[position / block_size];
    QUIRE_CHECK(block >= 0 && block < cache.num_blocks(), block, cache.num_blocks());
    return block;
  };
  const int base = index * kSpan;
  for (int p = base + begin / width * width; p < base + end; p += width) {
    const std::uint8_t* piece = cache.keys(call.layer, block_at(p), work.kv_head) +
                                p % block_size / width * dim * width * element;
    float* tile = scratch.keys + (p - base) / kTile * kTile * dim;
    if (width == kTile) {
      widen(piece, tile, dim * kTile);
      continue;
    }
    widen(piece, scratch.raw, dim * width);
    for (int d = 0; d < dim; ++d)
      std::memcpy(tile + d * kTile + p % kTile, scratch.raw + d * width, width * sizeof(float));
  }
  // Values of one block follow each other, as they do in the target unless it is padded.
  for (int p = base + begin; p < base + end;) {
    const int left_in_block = block_size - p % block_size;
    const int count = std::min(left_in_block, base + end - p);
    const std::uint8_t* source = cache.values(call.layer, block_at(p), work.kv_head) +
                                 static_cast<std::size_t>(p % block_size) * dim * element;
    float* target = scratch.values + (p - base) * call.padded_dim;
    p += count;
    if (dim == call.padded_dim) {
      widen(source, target, count * dim);
      continue;
    }
    for (int i = 0; i < count; ++i, target += call.padded_dim) {
      widen(source + i * dim * element, target, dim);
      std::fill(target + dim, target + call.padded_dim, 0.0f);
    }
  }
}

// Computes span `index` for the queries [first_query, end_query) that see some of it; false when
// none does.
bool Attention::span(const Call& call, const Work& work, int index, Scratch& scratch,
                     int& first_query, int& end_query) const {
  const int base = index * kSpan;
  first_query = work.queries;
  end_query = 0;
  int lowest = kSpan, highest = 0;
  for (int i = 0; i < work.queries; ++i) {
    const int position = work.position + i;
    scratch.begin[i] = std::max(0, call.first_seen(position) - base);
    scratch.end[i] = std::min(kSpan, position + 1 - base);
    if (scratch.begin[i] >= scratch.end[i]) continue;
    first_query = std::min(first_query, i);
    end_query = i + 1;
    lowest = std::min(lowest, scratch.begin[i]);
    highest = std::max(highest, scratch.end[i]);
  }
  if (first_query >= end_query) return false;
  expand(call, work, index, lowest, highest, scratch);
  const int row = first_query * call.group;
  kernels_.attend_span({call.shape.head_dim, call.padded_dim, call.group, end_query - first_query,
                        scratch.q + row * call.padded_dim, scratch.keys, scratch.values,
                        scratch.begin.data() + first_query, scratch.end.data() + first_query,
                        scratch.scores, scratch.span_largest + row, scratch.span_total + row,
                        scratch.span_out + row * call.padded_dim});
  return true;
}

void Attention::run_whole(const Call& call, const Work& work, Scratch& scratch) const {
  scratch.clear(work.queries * call.group, call.padded_dim);
  for (int index = work.span_begin; index < work.span_end; ++index) {
    int first = 0, end = 0;
    if (!span(call, work, index, scratch, first, end)) continue;
    for (int row = first * call.group; row < end * call.group; ++row)
      kernels_.merge_span(scratch.largest[row], scratch.total[row],
                          scratch.out + row * call.padded_dim, scratch.span_largest[row],
                          scratch.span_total[row], scratch.span_out + row * call.padded_dim,
                          call.padded_dim);
  }
  finish(call, work, scratch);
}

// A partial is the group's outputs, then its largest scores and totals.
void Attention::run_split(const Call& call, const Work& work, Scratch& scratch) {
  int first = 0, end = 0;
  const bool seen = span(call, work, work.span_begin, scratch, first, end);
  QUIRE_CHECK(seen, work.position, work.span_begin);
  const Split& split = splits_[work.split];
  const int group = call.group, dim = call.padded_dim;
  float* partial = partials_.as<float>() + split.partials +
                   (work.span_begin - split.first_span) * call.partial_floats();
  std::copy_n(scratch.span_out, group * dim, partial);
  for (int h = 0; h < group; ++h) {
    partial[group * dim + 2 * h] = scratch.span_largest[h];
    partial[group * dim + 2 * h + 1] = scratch.span_total[h];
  }
  if (remaining_[work.split].fetch_sub(1, std::memory_order_acq_rel) == 1)
    merge_split(call, work, scratch);
}

void Attention::merge_split(const Call& call, const Work& work, Scratch& scratch) const {
  const Split& split = splits_[work.split];
  const int group = call.group, dim = call.padded_dim;
  scratch.clear(group, dim);
  for (int i = 0; i < split.spans; ++i) {
    const float* partial = partials_.as<float>() + split.partials + i * call.partial_floats();
    for (int h = 0; h < group; ++h)
      kernels_.merge_span(scratch.largest[h], scratch.total[h], scratch.out + h * dim,
                          partial[group * dim + 2 * h], partial[group * dim + 2 * h + 1],
                          partial + h * dim, dim);
  }
  finish(call, work, scratch);
}

void Attention::finish(const Call& call, const Work& work, const Scratch& scratch) const {
  const int dim = call.shape.head_dim;
  for (int i = 0; i < work.queries; ++i) {
    float* heads = call.out.row(work.first_row + i) + work.kv_head * call.group * dim;
    for (int h = 0; h < call.group; ++h) {
      const int row = i * call.group + h;
      for (int d = 0; d < dim; ++d)
        heads[h * dim + d] = scratch.out[row * call.padded_dim + d] / scratch.total[row];
    }
  }
}

}  // namespace quire::cpu
