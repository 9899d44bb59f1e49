#include "engine/core/decision_inputs.h"

namespace quire {
namespace {
class Measured : public DecisionSource {
 public:
  DecisionInputs next() override { return {}; }
  void observe(const StepObservation&) override {}
};
}  // namespace
std::unique_ptr<DecisionSource> make_measured_decisions(double) {
  return std::make_unique<Measured>();
}
}  // namespace quire
