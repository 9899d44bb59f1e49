#include "engine/core/step_time_model.h"

#include <algorithm>
#include <cmath>

namespace quire {
namespace {

constexpr int kTerms = StepTimeModel::kTerms;
using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

// Relative to each term's own weight: keeps terms that always occur together (one sample per
// decode) from cancelling each other with huge values.
constexpr double kRidge = 1e-5;
// A step slower than this many times its prediction weighs as if it had been predicted slower.
constexpr double kOutlier = 2;

Vector terms(const StepShape& shape) {
  return {1.0,
          static_cast<double>(shape.prefill_tokens),
          static_cast<double>(shape.decode_tokens),
          static_cast<double>(shape.num_samples),
          static_cast<double>(shape.prefill_pairs),
          static_cast<double>(shape.decode_context)};
}

// Solves the equations of the terms in use by Cholesky; the others stay 0. `a` is positive
// definite.
Vector solve(const Matrix& a, const Vector& b, const std::array<bool, kTerms>& used) {
  std::array<int, kTerms> at{};
  int n = 0;
  for (int i = 0; i < kTerms; ++i)
    if (used[i]) at[n++] = i;
  Matrix lower{};
  Vector y{}, x{};
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = a[at[i]][at[j]];
      for (int k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(std::max(sum, kRidge * kRidge)) : sum / lower[j][j];
    }
    double sum = b[at[i]];
    for (int k = 0; k < i; ++k) sum -= lower[i][k] * y[k];
    y[i] = sum / lower[i][i];
  }
  for (int i = n - 1; i >= 0; --i) {
    double sum = y[i];
    for (int k = i + 1; k < n; ++k) sum -= lower[k][i] * x[at[k]];
    x[at[i]] = sum / lower[i][i];
  }
  return x;
}

// The term whose growth would reduce the error most; -1 if none would.
int steepest(const Matrix& a, const Vector& b, const Vector& x,
             const std::array<bool, kTerms>& used) {
  int best = -1;
  double most = 1e-9;
  for (int i = 0; i < kTerms; ++i) {
    if (used[i] || a[i][i] <= 0) continue;
    double gain = b[i];
    for (int j = 0; j < kTerms; ++j) gain -= a[i][j] * x[j];
    if (gain <= most) continue;
    most = gain;
    best = i;
  }
  return best;
}

// Least squares under x >= 0 (Lawson and Hanson, "Solving Least Squares Problems", ch. 23).
Vector solve_non_negative(const Matrix& a, const Vector& b) {
  Vector x{};
  std::array<bool, kTerms> used{};
  for (int round = 0; round < 3 * kTerms; ++round) {
    const int next = steepest(a, b, x, used);
    if (next < 0) break;
    used[next] = true;
    Vector wanted = solve(a, b, used);
    // Goes towards the unconstrained answer until a term would turn negative; that one stays out.
    for (int cut = 0; cut < kTerms; ++cut) {
      double reach = 1;
      int first = -1;
      for (int i = 0; i < kTerms; ++i) {
        if (!used[i] || wanted[i] > 0) continue;
        const double part = x[i] / (x[i] - wanted[i] + 1e-300);
        if (part < reach || first < 0) {
          reach = std::min(reach, part);
          first = i;
        }
      }
      if (first < 0) break;
      for (int i = 0; i < kTerms; ++i) x[i] += reach * (wanted[i] - x[i]);
      used[first] = false;
      x[first] = 0;
      wanted = solve(a, b, used);
    }
    x = wanted;
  }
  for (double& value : x) value = std::max(0.0, value);
  return x;
}

}  // namespace

double StepTimeModel::predict_ms(const StepShape& shape) const {
  const Vector x = terms(shape);
  double sum = 0;
  for (int i = 0; i < kTerms; ++i) sum += ms[i] * x[i];
  return sum;
}

StepTimeFitter::StepTimeFitter(double half_life) : forget_(std::exp2(-1 / half_life)) {}

void StepTimeFitter::History::add(const Vector& x, double y, double weight, double forget) {
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) normal[i][j] = forget * normal[i][j] + weight * x[i] * x[j];
    moment[i] = forget * moment[i] + weight * x[i] * y;
  }
}

void StepTimeFitter::observe(const StepShape& shape, double milliseconds) {
  if (!(milliseconds > 0) || !std::isfinite(milliseconds)) return;
  // Weighing by the prediction and not by the time itself: the latter would favour fast flukes.
  const double scale = current_.fitted
                           ? std::max(current_.predict_ms(shape), milliseconds / kOutlier)
                           : milliseconds;
  History& history = shape.prefill_tokens > 0 ? with_prefill_ : without_;
  history.add(terms(shape), milliseconds, 1 / (scale * scale), forget_);
  seen_prefill_ |= shape.prefill_tokens > 0;
  seen_decode_ |= shape.decode_tokens > 0;
  ++num_steps_;
  if (num_steps_ % kRefitSteps == 0 || (num_steps_ > kLeastSteps && !current_.fitted))
    current_ = fit();
}

StepTimeModel StepTimeFitter::fit() const {
  StepTimeModel model;
  if (num_steps_ < kLeastSteps || !seen_prefill_ || !seen_decode_) return model;
  Matrix a{};
  Vector b{}, scale{};
  for (int i = 0; i < kTerms; ++i)
    scale[i] = std::sqrt(with_prefill_.normal[i][i] + without_.normal[i][i]);
  for (int i = 0; i < kTerms; ++i) {
    if (scale[i] <= 0) continue;
    b[i] = (with_prefill_.moment[i] + without_.moment[i]) / scale[i];
    for (int j = 0; j < kTerms; ++j)
      if (scale[j] > 0)
        a[i][j] = (with_prefill_.normal[i][j] + without_.normal[i][j]) / (scale[i] * scale[j]);
    a[i][i] += kRidge;
  }
  const Vector x = solve_non_negative(a, b);
  for (int i = 0; i < kTerms; ++i) model.ms[i] = scale[i] > 0 ? x[i] / scale[i] : 0;
  model.fitted = true;
  return model;
}

}  // namespace quire
