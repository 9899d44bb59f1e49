#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/server/http_error.h"

namespace quire {

using Json = nlohmann::ordered_json;  // keeps the order of members, which templates can see

// Parses a request body into an object, within the limits' depth, number of values and keys per
// object. Returns what to refuse it with; messages give a byte position, never the content.
std::optional<ApiError> parse_json_object(std::string_view body, const ServerLimits& limits,
                                          Json& object);

std::string dump_json(const Json& value);  // one line; broken UTF-8 becomes U+FFFD

// Reads members of a JSON object. A member that is null counts as absent. The first wrong type or
// range is kept as an error that names the member; later reads then do nothing.
// Each reader returns whether the member was there and right, and leaves `target` alone otherwise.
class FieldReader {
 public:
  explicit FieldReader(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  const Json* find(std::string_view name) const;  // null when absent or null
  bool boolean(std::string_view name, bool& target);
  // Checked before conversion: a number with a fraction or outside [low, high] is an error.
  bool integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t& target);
  bool number(std::string_view name, double low, double high, float& target);
  bool text(std::string_view name, std::string& target);

  void fail(std::string_view name, std::string_view what);  // "'name' what."
  const std::optional<ApiError>& error() const { return error_; }

 private:
  const Json& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

// The value of an integer, or of a float without a fraction, that fits; nullopt otherwise.
std::optional<std::int64_t> exact_integer(const Json& value);

}  // namespace quire
