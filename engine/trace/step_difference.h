#pragma once

#include <string>

#include "engine/core/step_record.h"

namespace quire {

// What a replayed step did otherwise than the recorded one, in words: the first part that differs,
// in the order things are decided, with both values. Empty when they are equal. Times and block
// hashes are not compared.
std::string step_difference(const StepRecord& recorded, const StepRecord& replayed);

}  // namespace quire
