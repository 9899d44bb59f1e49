#include "kernels/cpu/attention_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "kernels/check.h"
#include "kernels/cpu/attention_table.h"

namespace quire::cpu {
namespace {

constexpr int kAll = std::numeric_limits<int>::max();
// Items a thread gets of a step's work when that can be divided: few enough to be worth handing
// out, enough that the last one does not keep the others waiting.
constexpr int kItemsPerThread = 8;
// Reading a span takes about as long as attending to it with so many query rows.
constexpr int kReadRows = 8;

struct Context {
  const std::int32_t* blocks;
  int num_blocks;
  int first_query, end_query;  // of the plan's
};

class Builder {
 public:
  Builder(AttentionPlan& plan, const AttentionPlanOptions& options)
      : plan_(plan), options_(options) {}

  void add_queries(const BatchView& batch);
  void divide(bool share, bool split);

 private:
  // Spans of which the request has all blocks.
  int whole_spans(const Context& c) const {
    return static_cast<int>(std::int64_t{c.num_blocks} * options_.block_size / kSpan);
  }
  std::span<const std::int32_t> blocks_of(const Context& c, int index) const {
    const int begin = index * kSpan / options_.block_size;
    const int end = (index * kSpan + kSpan - 1) / options_.block_size + 1;
    return {c.blocks + begin, c.blocks + end};
  }
  bool agree(const Context& a, const Context& b, int index) const {
    return index < whole_spans(a) && index < whole_spans(b) &&
           std::ranges::equal(blocks_of(a, index), blocks_of(b, index));
  }
  void share_spans(std::span<Context> contexts, int span_begin);
  void add_items(std::span<const Context> contexts, int span_begin, int span_end);
  std::int64_t cost(const AttentionPlan::Item& item) const {
    return std::int64_t{item.span_end - item.span_begin} *
           (item.count * plan_.kind.group + kReadRows);
  }
  void split_items();
  void place_partials();

  AttentionPlan& plan_;
  const AttentionPlanOptions& options_;
  std::vector<Context> contexts_;
};

void Builder::add_queries(const BatchView& batch) {
  const int window = plan_.kind.window;
  for (int r = 0; r < batch.num_reqs; ++r) {
    const int begin = batch.query_start_loc[r], end = batch.query_start_loc[r + 1];
    const int length = batch.seq_lens[r];
    if (length == 0) {
      for (int row = begin; row < end; ++row) plan_.padding_rows.push_back(row);
      continue;
    }
    const int num_blocks = (length - 1) / options_.block_size + 1;
    QUIRE_CHECK(length >= end - begin && num_blocks <= batch.max_blocks, length, begin, end,
                batch.max_blocks);
    const int first = static_cast<int>(plan_.queries.size());
    for (int row = begin; row < end; ++row) {
      AttentionPlan::Query query;
      query.row = row;
      query.position = length - end + row;
      query.first_span = window > 0 ? std::max(0, query.position - window + 1) / kSpan : 0;
      query.end_span = query.position / kSpan + 1;
      plan_.queries.push_back(query);
    }
    contexts_.push_back({batch.block_table + static_cast<std::int64_t>(r) * batch.max_blocks,
                         num_blocks, first, static_cast<int>(plan_.queries.size())});
  }
}

void Builder::divide(bool share, bool split) {
  plan_.items.clear();
  plan_.item_queries.clear();
  const int per_item = AttentionPlan::queries_per_item(plan_.kind.group);
  const auto shared = std::stable_partition(
      contexts_.begin(), contexts_.end(), [share, per_item](const Context& c) {
        return !share || c.end_query - c.first_query > per_item;
      });
  for (auto c = contexts_.begin(); c != shared; ++c) add_items({&*c, 1}, 0, kAll);
  share_spans({shared, contexts_.end()}, 0);
  if (split) split_items();
  place_partials();
}

// Items of contexts that have the blocks of all spans before span_begin in common.
void Builder::share_spans(std::span<Context> contexts, int span_begin) {
  if (contexts.size() <= 1) return add_items(contexts, span_begin, kAll);
  int index = span_begin;
  while (std::ranges::all_of(contexts,
                             [&](const Context& c) { return agree(contexts.front(), c, index); }))
    ++index;
  add_items(contexts, span_begin, index);
  std::ranges::stable_sort(contexts, [&](const Context& a, const Context& b) {
    if (index >= whole_spans(a) || index >= whole_spans(b))
      return index >= whole_spans(a) && index < whole_spans(b);
    return std::ranges::lexicographical_compare(blocks_of(a, index), blocks_of(b, index));
  });
  for (std::size_t begin = 0, end = 0; begin < contexts.size(); begin = end) {
    for (end = begin + 1; end < contexts.size() && agree(contexts[begin], contexts[end], index);)
      ++end;
    share_spans(contexts.subspan(begin, end - begin), index);
  }
}

void Builder::add_items(std::span<const Context> contexts, int span_begin, int span_end) {
  auto& members = plan_.item_queries;
  const auto& queries = plan_.queries;
  const int first = static_cast<int>(members.size());
  for (const Context& c : contexts)
    for (int q = c.first_query; q < c.end_query; ++q)
      if (queries[q].sees(span_begin, span_end)) members.push_back(q);
  if (contexts.size() > 1)
    std::stable_sort(members.begin() + first, members.end(),
                     [&](int a, int b) { return queries[a].position < queries[b].position; });
  const int per_item = AttentionPlan::queries_per_item(plan_.kind.group);
  const int end = static_cast<int>(members.size());
  for (int at = first; at < end; at += per_item) {
    AttentionPlan::Item item{at, std::min(per_item, end - at), contexts.front().blocks, kAll, 0};
    for (int i = at; i < at + item.count; ++i) {
      item.span_begin = std::min(item.span_begin, queries[members[i]].first_span);
      item.span_end = std::max(item.span_end, queries[members[i]].end_span);
    }
    item.span_begin = std::max(item.span_begin, span_begin);
    item.span_end = std::min(item.span_end, span_end);
    plan_.items.push_back(item);
  }
}

// Divides the spans of items that take much of the step, and puts the longest first.
void Builder::split_items() {
  std::int64_t total = 0;
  for (const AttentionPlan::Item& item : plan_.items) total += cost(item);
  const std::int64_t share = std::max<std::int64_t>(
      1, total * plan_.kind.num_kv_heads / (std::int64_t{kItemsPerThread} * options_.num_threads));
  std::vector<AttentionPlan::Item> parts;
  for (const AttentionPlan::Item& item : plan_.items) {
    const int spans = item.span_end - item.span_begin;
    const int pieces =
        static_cast<int>(std::clamp<std::int64_t>((cost(item) + share / 2) / share, 1, spans));
    for (int i = 0; i < pieces; ++i) {
      AttentionPlan::Item& part = parts.emplace_back(item);
      part.span_begin = item.span_begin + spans * i / pieces;
      part.span_end = item.span_begin + spans * (i + 1) / pieces;
    }
  }
  plan_.items = std::move(parts);
  std::ranges::stable_sort(plan_.items,
                           [this](const auto& a, const auto& b) { return cost(a) > cost(b); });
}

void Builder::place_partials() {
  for (AttentionPlan::Query& query : plan_.queries) query.items = 0;
  for (const AttentionPlan::Item& item : plan_.items)
    for (int i = item.first; i < item.first + item.count; ++i) {
      AttentionPlan::Query& query = plan_.queries[plan_.item_queries[i]];
      if (!item.holds(query)) continue;
      ++query.items;
      if (item.leads(query)) query.lead_end = std::min(item.span_end, query.end_span);
    }
  plan_.num_splits = plan_.num_partials = 0;
  for (AttentionPlan::Query& query : plan_.queries) {
    query.split = query.items > 1 ? plan_.num_splits++ : -1;
    if (query.split < 0) continue;
    query.first_partial = plan_.num_partials;
    plan_.num_partials += query.num_partials();
  }
}

}  // namespace

void AttentionPlan::build(const BatchView& batch, const AttentionKind& attention,
                          const AttentionPlanOptions& options) {
  kind = attention;
  queries.clear();
  padding_rows.clear();
  Builder builder(*this, options);
  builder.add_queries(batch);
  builder.divide(options.share, options.num_threads > 1);
  if (partial_bytes() > options.max_partial_bytes) builder.divide(options.share, false);
  if (partial_bytes() > options.max_partial_bytes) builder.divide(false, false);
}

}  // namespace quire::cpu
