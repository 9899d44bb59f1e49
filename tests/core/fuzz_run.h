#pragma once

#include "tests/core/fuzz_case.h"
#include "tests/core/fuzz_model.h"

namespace quire::test {

// Where a case stands; lies in memory shared with the process that watches it.
struct FuzzProgress {
  Tallies tallies;
  int op = 0;  // the one being done
};

// Runs a case against the engine and the model. Throws Violation; whatever QUIRE_CHECK finds aborts
// the process.
void run_case(const FuzzCase& fuzz_case, FuzzProgress& progress);

struct FuzzFailure {
  bool failed = false;
  std::string what;
  int op = 0;
};

// The same in a process of its own, so that an abort or a hang is a failure like others.
FuzzFailure run_isolated(const FuzzCase& fuzz_case, Tallies* tallies = nullptr);

// Runs the cases of these seeds, several at a time; stops at the first that fails and returns it.
struct FuzzBatch {
  Tallies tallies;
  bool failed = false;
  unsigned seed = 0;
  std::string what;
};
FuzzBatch run_seeds(unsigned first, int num_cases, int steps_per_case);

// Leaves out and simplifies what the failure does not need. At most `trials` runs.
FuzzCase shrink(FuzzCase failing, int trials = 3000);

// What the batch's failing case broke, and the least case that breaks the same rule.
std::string explain(const FuzzBatch& batch, int steps_per_case);

// The counts, and which of them lie below their floor, in proportion to the steps made.
std::string tally_text(Tallies& tallies);
std::string below_floor(Tallies& tallies);

}  // namespace quire::test
