#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/core/step_record.h"

// Step records as payloads. Each is coded against the one before it, so both sides begin from the
// same point: a keyframe.
namespace quire {

class StepEncoder {
 public:
  void restart(const EngineSnapshot& keyframe);
  // Appends the payload to `target`. Keeps `record` until the next one.
  void encode(const std::shared_ptr<const StepRecord>& record, std::string& target);

 private:
  std::shared_ptr<const StepRecord> previous_;
};

class StepDecoder {
 public:
  void restart(const EngineSnapshot& keyframe);
  // False when the payload is not one record, whole and next in the count; the decoder is then of
  // no more use. Block hashes are left zero.
  bool decode(std::string_view payload, StepRecord& record);

 private:
  StepRecord previous_;
};

}  // namespace quire
