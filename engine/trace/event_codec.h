#pragma once

#include <string>
#include <string_view>

#include "engine/core/step_record.h"

// What happens between steps, and keyframes, as payloads. Each stands alone. `decode` is false when
// the payload is not one such record, whole.
namespace quire {

void encode(const ArrivalRecord& record, std::string& target);
void encode(const AbortRecord& record, std::string& target);
void encode(const ReconfigureRecord& record, std::string& target);
void encode(const CacheResetRecord& record, std::string& target);
void encode(const EngineSnapshot& snapshot, std::string& target);

bool decode(std::string_view payload, ArrivalRecord& record);
bool decode(std::string_view payload, AbortRecord& record);
bool decode(std::string_view payload, ReconfigureRecord& record);
bool decode(std::string_view payload, CacheResetRecord& record);
bool decode(std::string_view payload, EngineSnapshot& snapshot);

}  // namespace quire
