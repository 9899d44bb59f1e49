#pragma once

#include <string>
#include <utility>
#include <variant>

#include "kernels/check.h"

namespace quire {

// What kind of thing went wrong; the server maps it to an HTTP status in one function.
enum class ErrorCode {
  kInvalidArgument,        // a value out of range or of the wrong kind
  kContextLengthExceeded,  // the prompt leaves no room for one token
  kModelNotFound,          // no such file, folder or library name
  kBadModelFile,           // truncated, lying or corrupt
  kUnsupportedModel,       // a valid file of an architecture, type or tokenizer we do not know
  kPermissionDenied,
  kOutOfMemory,
  kQueueFull,
  kNotReady,  // no model loaded yet, loading, or shutting down
  kCancelled,
  kAddressInUse,
  kDeviceFailure,
  kIo,
  kNotFound,
};

// An expected failure. `message` is one sentence a person can act on, without internal paths or
// addresses other than what the person named.
struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;
};

// A value or an Error. Reading the wrong alternative is our bug and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    QUIRE_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    QUIRE_CHECK(ok(), error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    QUIRE_CHECK(ok(), error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success or an Error.
struct Ok {};
using Status = Result<Ok>;

inline Error make_error(ErrorCode code, std::string message) {
  return Error{code, std::move(message)};
}

}  // namespace quire

// Returns the error of an expression that yields a Result, or stores its value in `target`.
#define QUIRE_CONCAT_INNER(a, b) a##b
#define QUIRE_CONCAT(a, b) QUIRE_CONCAT_INNER(a, b)
#define QUIRE_TRY_IMPL(result, target, expression) \
  auto result = (expression);                      \
  if (!result.ok()) return result.error();         \
  target = std::move(result).value()
#define QUIRE_TRY(target, expression) \
  QUIRE_TRY_IMPL(QUIRE_CONCAT(quire_result_, __LINE__), target, expression)
#define QUIRE_RETURN_IF_ERROR(expression)                                                  \
  do {                                                                                     \
    if (auto quire_status = (expression); !quire_status.ok()) return quire_status.error(); \
  } while (false)
