#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/format.h"

namespace quire::cpu {

// Cuts a product's [rows, outputs) into items of work: runs of columns (16 outputs, a panel of
// weights) by blocks of rows. Row blocks of the same columns follow each other, so their weights
// are still in a near cache.
//
// With one block of rows, whose weights come from memory, runs get shorter: a round hands each
// thread an equal share of half of what is left (factoring: Hummel, Schonberg and Flynn, CACM 35:8,
// 1992), and the last columns go in runs of `shortest`. So a thread reads long pieces of the
// weights in order, which is what memory is fast at, and all threads finish together.
class LinearPlan {
 public:
  struct Size {
    std::int64_t outputs = 0;
    int rows = 0;
    int block_rows = 1;         // at most so many rows in an item
    int threads = 1;            // that share the items
    std::int64_t shortest = 1;  // columns of the last runs
    int streams = 1;            // columns of a run that are worked on side by side
  };
  // `count` columns, `stride` apart.
  struct Columns {
    std::int64_t first = 0, stride = 1;
    int count = 1;
  };

  explicit LinearPlan(const Size& size)
      : size_(size),
        row_blocks_((size.rows + size.block_rows - 1) / size.block_rows),
        columns_((size.outputs + kPanelRows - 1) / kPanelRows) {
    if (row_blocks_ > 1)
      size_.shortest = 1;
    else
      while (left(rounds_ + 1) >= size_.threads * size_.shortest) ++rounds_;
  }

  std::int64_t items() const { return runs() * row_blocks_; }

  // Calls visit_columns(first row, rows, Columns) for every column of an item: `streams` of them
  // at a time, each from a piece of its own of the run, then those left over.
  template <typename Visit>
  void visit(std::int64_t item, const Visit& visit_columns) const {
    const int first = static_cast<int>(item % row_blocks_) * size_.block_rows;
    const int rows = std::min(size_.block_rows, size_.rows - first);
    const std::int64_t run = item / row_blocks_, start = begin(run);
    const std::int64_t count = begin(run + 1) - start, piece = count / size_.streams;
    for (std::int64_t c = start; c < start + piece; ++c)
      visit_columns(first, rows, Columns{c, piece, size_.streams});
    if (const auto rest = static_cast<int>(count - piece * size_.streams); rest > 0)
      visit_columns(first, rows, Columns{start + piece * size_.streams, 1, rest});
  }

 private:
  std::int64_t left(int round) const { return columns_ >> round; }  // columns, when it begins
  std::int64_t runs() const {
    return rounds_ * size_.threads + (left(rounds_) + size_.shortest - 1) / size_.shortest;
  }
  // First column of a run; of the one past the last, the number of columns.
  std::int64_t begin(std::int64_t run) const {
    const int round = static_cast<int>(std::min<std::int64_t>(run / size_.threads, rounds_));
    const std::int64_t place = run - static_cast<std::int64_t>(round) * size_.threads;
    const std::int64_t taken = round < rounds_
                                   ? (left(round) - left(round + 1)) * place / size_.threads
                                   : std::min(place * size_.shortest, left(rounds_));
    return columns_ - left(round) + taken;
  }

  Size size_;
  int row_blocks_ = 0, rounds_ = 0;
  std::int64_t columns_ = 0;
};

}  // namespace quire::cpu
