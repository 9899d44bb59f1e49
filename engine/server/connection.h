#pragma once

#include "engine/server/access_policy.h"
#include "engine/server/body_reader.h"
#include "engine/server/listener.h"
#include "engine/server/request_log.h"
#include "engine/server/router.h"

namespace quire {

// What every connection reads; immutable but for the budget, the log and the listener's state.
struct ConnectionContext {
  const ServerLimits& limits;
  const AccessPolicy& access;
  const Router& router;
  const Listener& listener;
  BodyBudget& body_budget;
  RequestLog& log;
};

// Serves one connection until it ends: head, checks, body, route, answer, again. A request refused
// by its head alone is answered and the connection closed, so that its unread body can never be
// taken for another request. Connection thread.
void serve_connection(ConnectionEntry& entry, const ConnectionContext& context);

// A whole answer for a connection that no request is read from.
std::string raw_error_answer(const ApiError& error);

}  // namespace quire
