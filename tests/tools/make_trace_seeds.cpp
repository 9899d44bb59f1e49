// Writes the small seed files of the recording fuzzer into the folder named,
// tests/fuzz/seeds/trace. The output is deterministic.
#include "tests/trace/busy_run.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (const unsigned seed : {2u, 5u, 8u})
    quire::test::record_busy_run(std::string(argv[1]) + "/busy_" + std::to_string(seed), seed, 25);
  return 0;
}
