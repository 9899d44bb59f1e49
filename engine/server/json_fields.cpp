#include "engine/server/json_fields.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

namespace quire {
namespace {

struct LimitExceeded {
  const char* what;
};

// Counts while the parser builds, and stops it at the first limit passed.
class LimitCheck {
 public:
  explicit LimitCheck(const ServerLimits& limits) : limits_(limits) {}

  bool operator()(int depth, Json::parse_event_t event, const Json&) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= limits_.max_json_depth) throw LimitExceeded{"is nested too deeply"};
      keys_.push_back(0);
    } else if (event == Event::object_end || event == Event::array_end) {
      keys_.pop_back();
    } else if (event == Event::key && ++keys_.back() > limits_.max_json_keys) {
      // Members are kept in order and found by a linear search.
      throw LimitExceeded{"has an object with too many members"};
    }
    if (event != Event::key && ++values_ > 2 * limits_.max_json_values) {
      throw LimitExceeded{"has too many values"};
    }
    return true;
  }

 private:
  const ServerLimits& limits_;
  std::vector<std::size_t> keys_;
  std::size_t values_ = 0;  // containers count twice: their start and their end
};

ApiError bad_body(std::string what) {
  return {.status = 400, .message = "The body " + std::move(what) + ".", .code = "invalid_json"};
}

}  // namespace

std::optional<ApiError> parse_json_object(std::string_view body, const ServerLimits& limits,
                                          Json& object) {
  try {
    LimitCheck check(limits);
    object = Json::parse(body.begin(), body.end(), std::ref(check));
  } catch (const LimitExceeded& limit) {
    return bad_body(limit.what);
  } catch (const Json::parse_error& failure) {
    return bad_body("is not valid JSON (near byte " + std::to_string(failure.byte) + ")");
  } catch (const Json::exception&) {
    return bad_body("holds a number that is out of range");
  }
  if (!object.is_object()) return bad_body("must be a JSON object");
  return std::nullopt;
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<std::int64_t> exact_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  constexpr double kExactLimit = 9007199254740992.0;  // 2^53: every integer below is exact
  if (!(std::fabs(number) < kExactLimit) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

const Json* FieldReader::find(std::string_view name) const {
  const auto place = object_.find(name);
  return place == object_.end() || place->is_null() ? nullptr : &*place;
}

void FieldReader::fail(std::string_view name, std::string_view what) {
  if (error_) return;
  const std::string full = prefix_ + std::string(name);
  error_ = ApiError{.status = 400,
                    .message = "'" + full + "' " + std::string(what) + ".",
                    .code = "invalid_value",
                    .param = full};
}

bool FieldReader::boolean(std::string_view name, bool& target) {
  const Json* value = find(name);
  if (value == nullptr || error_) return false;
  if (!value->is_boolean()) {
    fail(name, "must be true or false");
    return false;
  }
  target = value->get<bool>();
  return true;
}

bool FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high,
                          std::int64_t& target) {
  const Json* value = find(name);
  if (value == nullptr || error_) return false;
  if (!value->is_number()) {
    fail(name, "must be an integer");
    return false;
  }
  const auto number = exact_integer(*value);
  if (!number || *number < low || *number > high) {
    fail(name, "must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    return false;
  }
  target = *number;
  return true;
}

bool FieldReader::number(std::string_view name, double low, double high, float& target) {
  const Json* value = find(name);
  if (value == nullptr || error_) return false;
  if (!value->is_number()) {
    fail(name, "must be a number");
    return false;
  }
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    char range[80];
    std::snprintf(range, sizeof(range), "must be a number from %g to %g", low, high);
    fail(name, range);
    return false;
  }
  target = static_cast<float>(number);
  return true;
}

bool FieldReader::text(std::string_view name, std::string& target) {
  const Json* value = find(name);
  if (value == nullptr || error_) return false;
  if (!value->is_string()) {
    fail(name, "must be a string");
    return false;
  }
  target = value->get_ref<const std::string&>();
  return true;
}

}  // namespace quire
