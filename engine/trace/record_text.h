#pragma once

#include <string>

#include "engine/core/step_record.h"

// Parts of records in words, for people: `quire trace show` and what a replay finds different.
namespace quire {

std::string text_of(WorkKind kind);
std::string text_of(WaitReason reason);
std::string text_of(FinishReason reason);
std::string text_of(BlockEventKind kind);
std::string text_of(StepOutcome outcome);
std::string text_of(RequestId request);

std::string text_of(const ScheduledWork& work);     // "3 decode 1 at 57"
std::string text_of(const Preemption& preemption);  // "5 preempted for 3 (out of blocks) ..."
std::string text_of(const FinishRecord& finish);    // "3 finished (stop) with 12 tokens"
std::string text_of(const WaitState& wait);         // "9 waits for blocks (2)"
std::string text_of(const NearMiss& miss);
std::string text_of(const SampledToken& sampled);  // "3 samples 1402"
std::string text_of(const DraftVerification& verified);
std::string text_of(const DraftProposal& drafted);
std::string text_of(const BlockEvent& event);  // "alloc block 7 for 3"
std::string text_of(const BlockMove& move);    // "copy block 4 to 9 for 3"

// One line that says everything a step decided.
std::string line_of(const StepRecord& record);

}  // namespace quire
