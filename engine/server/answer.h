#pragma once

#include <memory>
#include <string>

#include "engine/server/generation.h"
#include "engine/server/http_types.h"
#include "engine/server/json_fields.h"

namespace quire {

// What an answer says of itself whatever its shape.
struct AnswerHead {
  std::string id;  // "chatcmpl-..." or "cmpl-..."; the same in every chunk
  std::int64_t created_unix_s = 0;
  std::string model;
};

// Turns updates into the JSON of one route. `end` is the last update of the request; its text and
// tokens have gone out before (stream) or are the whole answer (collected).
class AnswerShape {
 public:
  virtual ~AnswerShape() = default;
  virtual Json opening_chunk() = 0;  // null: none
  virtual Json delta_chunk(const GenerationUpdate& update) = 0;
  virtual Json finish_chunk(const GenerationUpdate& end) = 0;
  virtual Json usage_chunk(const GenerationUpdate& end) = 0;
  virtual Json whole(const GenerationUpdate& collected) = 0;
};

struct AnswerJob {
  std::shared_ptr<Generation> generation;
  std::shared_ptr<AnswerShape> shape;
  bool stream = false, include_usage = false, logprobs = false;
  double keep_alive_comment_s = 30;
};

// Answers whole or as a stream of server-sent events: opening, deltas, finish, usage if asked for,
// [DONE]. A client that goes away ends the request within kClientPollMs in every phase. After the
// head was sent, a failure is a last data line with an error, without [DONE].
HttpReply answer(Exchange& exchange, AnswerJob job);

// Shared parts of the shapes.
const char* finish_reason_name(FinishReason reason);
Json usage_json(const GenerationUpdate& end);
Json timings_json(const GenerationUpdate& end);  // in llama.cpp's fields

}  // namespace quire
