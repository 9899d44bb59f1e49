#include "engine/trace/samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace quire {

double Samples::percentile(double fraction) const {
  if (values_.empty()) return 0;
  std::vector<float> sorted = values_;
  const double last = static_cast<double>(sorted.size());
  const auto rank = static_cast<std::ptrdiff_t>(std::clamp(std::ceil(fraction * last), 1.0, last));
  std::nth_element(sorted.begin(), sorted.begin() + (rank - 1), sorted.end());
  return sorted[static_cast<std::size_t>(rank - 1)];
}

double Samples::mean() const {
  if (values_.empty()) return 0;
  return std::accumulate(values_.begin(), values_.end(), 0.0) / static_cast<double>(values_.size());
}

double Samples::max() const {
  return values_.empty() ? 0 : *std::ranges::max_element(values_);
}

}  // namespace quire
