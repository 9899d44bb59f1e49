#pragma once

#include <vector>

#include "kernels/cpu/attention_table.h"

namespace quire::cpu {

// Memory of its own for calls of attend_span() outside of Attention: the scratch and the results of
// `rows` rows, all `fill` at first.
struct SpanScratch {
  std::vector<float> scores, key_floats, value_floats, largest, total, out;

  SpanScratch(int rows, int padded_dim, float fill = 0)
      : scores((rows + kSpareRows) * kSpan, fill),
        key_floats(padded_dim * 16, fill),
        value_floats(kSpan * padded_dim, fill),
        largest(rows, fill),
        total(rows, fill),
        out((rows + kSpareRows) * padded_dim, fill) {}

  void lend(SpanArgs& args) {
    args.scores = scores.data();
    args.key_floats = key_floats.data();
    args.value_floats = value_floats.data();
    args.largest = largest.data();
    args.total = total.data();
    args.out = out.data();
  }
};

}  // namespace quire::cpu
