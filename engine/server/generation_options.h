#pragma once

#include "engine/sampling/params.h"
#include "engine/server/json_fields.h"

namespace quire {

// What chat and completion requests have in common.
struct GenerationOptions {
  SamplingParams params;
  bool stream = false;
  bool include_usage = false;  // a last chunk with the token counts
  int priority = 0;            // lower runs first under the priority policy
  std::string cache_salt;      // prefixes are shared only with requests of the same salt
};

// Reads the shared fields. Unknown fields are ignored; a field that is known, set and cannot be
// honoured (several choices, token biases, grammars) is an error, so that no answer pretends.
void read_generation_options(FieldReader& fields, const ServerLimits& limits, int vocab_size,
                             GenerationOptions& options);

// max_tokens and its newer name; larger than any context is allowed and clamped later.
void read_max_tokens(FieldReader& fields, int& max_tokens);

}  // namespace quire
