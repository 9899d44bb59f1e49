#pragma once

#include <string>
#include <vector>

#include "tests/core/fake_runner.h"
#include "tests/support/dice.h"

namespace quire::test {

// A random serving case as data. Every operation is complete in itself, so that any of them can be
// left out and the others still mean the same.
enum class FuzzOpKind : std::uint8_t {
  kAdd,
  kAbort,
  kStep,
  kCancelNext,  // asks for a cancel before the next step begins
  kReset,       // of the prefix cache
  kReconfigure,
};

// Whom an abort is aimed at.
enum class AbortTarget : std::uint8_t {
  kWaiting,
  kPartialPrefill,
  kDecoding,
  kPreempted,
  kSwapped,
  kJustFinished,  // ended in the step just done: nothing is left to abort
};
inline constexpr int kNumAbortTargets = 6;

struct FuzzOp {
  FuzzOpKind kind = FuzzOpKind::kStep;
  unsigned seed = 0;  // of whatever the operation draws while it runs

  // kAdd. The prompt is `length` tokens of a family of prompts that begin alike, one token of it
  // changed; or, if `continues` >= 0, what that many-th last finished request said, and `length`
  // tokens more.
  int family = 0, length = 1, changed_at = -1, continues = -1;
  int max_tokens = 0, min_tokens = 0, priority = 0;
  bool ignore_eos = false, other_key = false, other_salt = false;

  // kAbort: the `pick`-th, modulo how many there are; nothing when there is none.
  AbortTarget target = AbortTarget::kWaiting;
  int pick = 0;

  FakeRunner::Fate fate = FakeRunner::Fate::kRun;  // kStep
  bool moves_fail = false;                         // kStep: the device fails moving blocks
  DecisionInputs inputs;                           // kStep
  EngineConfig config;                             // kReconfigure: its live fields
};

struct FuzzCase {
  EngineConfig config;
  bool drafts = false;
  std::vector<FuzzOp> ops;
};

FuzzCase random_case(unsigned seed, int num_steps);
// One line per operation, the configuration's fields that are not the usual ones first.
std::string describe(const FuzzCase& fuzz_case);

}  // namespace quire::test
