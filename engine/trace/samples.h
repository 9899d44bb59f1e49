#pragma once

#include <cstddef>
#include <vector>

namespace quire {

// Numbers of which percentiles are wanted.
class Samples {
 public:
  void add(double value) { values_.push_back(static_cast<float>(value)); }
  std::size_t size() const { return values_.size(); }
  // The smallest value that `fraction` of all do not exceed; 0 when there are none.
  double percentile(double fraction) const;
  double mean() const;
  double max() const;

 private:
  std::vector<float> values_;
};

}  // namespace quire
