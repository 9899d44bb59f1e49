#pragma once

#include <memory>

#include "engine/server/answer.h"
#include "engine/text/tokenizer.h"

namespace quire {

// `tokenizer` must outlive the shape; it is only read when logprobs are wanted.
std::unique_ptr<AnswerShape> make_chat_shape(AnswerHead head, const Tokenizer& tokenizer,
                                             bool logprobs);
std::unique_ptr<AnswerShape> make_completion_shape(AnswerHead head, const Tokenizer& tokenizer,
                                                   bool logprobs);

// The text a client is shown for a token; may be half a character. Control tokens show as they are
// spelled in the vocabulary.
std::string shown_token(const Tokenizer& tokenizer, TokenId token);

}  // namespace quire
