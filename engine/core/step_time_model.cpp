#include "engine/core/step_time_model.h"

namespace quire {

double StepTimeModel::predict_ms(const StepShape&) const {
  return 0;
}
StepTimeFitter::StepTimeFitter(double) : forget_(1) {}
void StepTimeFitter::observe(const StepShape&, double) {}
StepTimeModel StepTimeFitter::fit() const {
  return {};
}

}  // namespace quire
