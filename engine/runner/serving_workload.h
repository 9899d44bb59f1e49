#pragma once

#include "engine/runner/simulation.h"

namespace quire {

// People asking a server: Poisson arrivals; most prompts begin with one of a few shared prefixes
// (system prompts, documents), of which some are far more popular than others (Zipf); own parts and
// answers are log-normal, so a few are very long. The same for the same options on every machine.
struct WorkloadOptions {
  int num_requests = 100'000;
  std::uint64_t seed = 1;
  double rate = 1;  // requests per second
  int vocab_size = 32000;
  int num_prefixes = 64;
  double shared_part = 0.8;  // of the requests, those with a shared prefix
  int prefix_median = 384, prefix_max = 4096;
  int own_median = 96, own_max = 8192;
  int output_median = 64, output_max = 2048;
  double spread = 1.0;           // of the logarithm of each length
  int max_tokens_in_all = 8192;  // prompt and answer; longer prompts are cut, then answers
  int num_priorities = 3;
};

// kInvalidArgument when the options make no workload.
Result<RequestSource> make_workload(const WorkloadOptions& options);

}  // namespace quire
