#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace quire::cpu {

// What a plan depends on beside the batch. Layers that agree in it share a plan.
struct AttentionKind {
  int window = 0;  // positions a query sees; 0 = all before it
  int group = 1;   // query heads per KV head
  int num_kv_heads = 1;
  int padded_dim = 16;  // floats of a head's output, a multiple of 16
  bool operator==(const AttentionKind&) const = default;

  // A partial result of one query and KV head: the group's outputs, largest scores and totals.
  std::size_t partial_floats() const {
    return static_cast<std::size_t>(group) * padded_dim +
           static_cast<std::size_t>(2 * group + 15) / 16 * 16;
  }
};

struct AttentionPlanOptions {
  int block_size = 16;
  int num_threads = 1;
  bool share = true;  // spans in the same blocks of several requests make one item
  std::size_t max_partial_bytes = std::size_t{32} << 20;
};

// How a step's attention is divided into items of work. An item holds some queries of the batch and
// a run of spans whose keys and values all of them find in the same blocks; it is done once per KV
// head. The spans of a query may be spread over items: the one that holds its first span folds what
// it has into one partial result, the others leave one per span, and the item that finishes last
// merges them in ascending order. So a query's result does not depend on the division.
//
// Cascade: requests whose block tables begin with the same blocks share the items of the spans
// these blocks fill, and so on where some of them agree for longer. A request with more query rows
// than an item holds reads its blocks for many rows at a time already and shares nothing.
struct AttentionPlan {
  static constexpr int kRowsPerItem = 60;  // query rows; a multiple of every kRowsAtOnce

  struct Query {
    int row = 0, position = 0;
    int first_span = 0, end_span = 0;  // spans it sees some of
    int lead_end = 0;                  // its leading item holds [first_span, lead_end)
    int items = 0;                     // that hold some of its spans
    int split = -1;                    // index among the queries with more than one item
    int first_partial = 0;             // of those: the leading item's, then one a later span
    bool sees(int span_begin, int span_end) const {
      return first_span < span_end && end_span > span_begin;
    }
    int num_partials() const { return 1 + end_span - lead_end; }
    // The partial result that span `index`, behind lead_end, leaves.
    int partial_of(int index) const { return first_partial + 1 + index - lead_end; }
  };
  struct Item {
    int first = 0, count = 0;              // of item_queries
    const std::int32_t* blocks = nullptr;  // the block table of one of the requests
    int span_begin = 0, span_end = 0;
    bool leads(const Query& query) const { return span_begin <= query.first_span; }
    bool holds(const Query& query) const { return query.sees(span_begin, span_end); }
  };

  AttentionKind kind;
  std::vector<Query> queries;
  std::vector<int> item_queries;  // indices into queries; positions ascend within an item
  std::vector<Item> items;
  std::vector<int> padding_rows;  // rows of requests without context: their output is zero
  int num_splits = 0, num_partials = 0;

  static int queries_per_item(int group) { return group < kRowsPerItem ? kRowsPerItem / group : 1; }
  std::size_t partial_bytes() const {
    return kind.partial_floats() * sizeof(float) * kind.num_kv_heads * num_partials;
  }
  // Rebuilds the plan. The batch's block tables are read as long as the plan is used.
  void build(const BatchView& batch, const AttentionKind& attention,
             const AttentionPlanOptions& options);
};

}  // namespace quire::cpu
