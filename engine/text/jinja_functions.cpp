#include <algorithm>
#include <chrono>
#include <cstdio>

#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_runtime.h"

namespace quire::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // jinja2's sandbox has the same

Value function_raise_exception(Call& call) {
  Failure failure;
  failure.message = call.runtime().str(call.at(0)).bytes();
  failure.is_raised = true;
  throw failure;
}

Value function_range(Call& call) {
  std::int64_t start = 0, stop = call.integer(0);
  if (call.find(1) != nullptr) {
    start = stop;
    stop = call.integer(1);
  }
  const std::int64_t step = call.integer_or(2, 1);
  if (step == 0) call.refuse("needs a step that is not zero");
  std::vector<Value> out;
  std::int64_t i = start;
  while (step > 0 ? i < stop : i > stop) {
    if (static_cast<std::int64_t>(out.size()) >= kMaxRange) {
      call.refuse("makes at most " + std::to_string(kMaxRange) + " numbers");
    }
    out.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return call.runtime().list(std::move(out));
}

// The entries of a dict, or of a list of pairs.
std::vector<std::pair<Value, Value>> entries_of(Call& call, const Value& value) {
  if (value.dict() != nullptr) return value.dict()->entries;
  std::vector<std::pair<Value, Value>> out;
  for (const Value& pair : call.runtime().iterate(value)) {
    std::vector<Value> parts = call.runtime().iterate(pair);
    if (parts.size() != 2) call.refuse("needs pairs of key and value");
    out.emplace_back(std::move(parts[0]), std::move(parts[1]));
  }
  return out;
}

std::vector<std::pair<Value, Value>> all_entries(Call& call) {
  Invocation& raw = call.raw();
  if (raw.args.size() > 1) call.refuse("takes one dict");
  std::vector<std::pair<Value, Value>> entries;
  if (!raw.args.empty()) entries = entries_of(call, raw.args.front());
  for (auto& [key, value] : raw.kwargs) {
    entries.emplace_back(Text(key, Origin::kTemplate), std::move(value));
  }
  call.runtime().charge(static_cast<std::int64_t>(entries.size()));
  return entries;
}

Value function_namespace(Call& call) {
  Namespace* space = call.runtime().make_namespace();
  for (auto& [key, value] : all_entries(call)) {
    if (key.text() == nullptr) call.refuse("needs names for its attributes");
    call.runtime().charge(static_cast<std::int64_t>(space->attributes.size()));
    space->set(key.text()->bytes(), std::move(value));
  }
  return space;
}

Value function_dict(Call& call) {
  Dict dict;
  for (auto& [key, value] : all_entries(call)) {
    if (key.dict() != nullptr || key.list() != nullptr) call.refuse("needs simple keys");
    if (key.text() == nullptr) {
      call.runtime().charge(static_cast<std::int64_t>(dict.entries.size()));
    }
    dict.set(std::move(key), std::move(value));
  }
  return make_dict(std::move(dict));
}

struct Moment {
  std::chrono::year_month_day date;
  int hour, minute, second;
  int weekday;   // 0: Sunday
  int year_day;  // 1: the first of January
};

Moment moment_of(double seconds_since_1970) {
  using namespace std::chrono;
  if (!(seconds_since_1970 >= 0 && seconds_since_1970 < 253402300800.0)) {
    fail("the time given to the template is no date between 1970 and 9999");
  }
  const seconds since(static_cast<std::int64_t>(seconds_since_1970));
  const sys_days day(floor<days>(since));
  const year_month_day date(day);
  const std::int64_t rest = (since - day.time_since_epoch()).count();
  const auto first = sys_days(date.year() / January / 1);
  return {date,
          static_cast<int>(rest / 3600),
          static_cast<int>(rest / 60 % 60),
          static_cast<int>(rest % 60),
          static_cast<int>(weekday(day).c_encoding()),
          static_cast<int>((day - first).count()) + 1};
}

std::string number(int value, int width, bool plain, char fill = '0') {
  std::string digits = std::to_string(value);
  if (!plain && static_cast<int>(digits.size()) < width) {
    digits.insert(0, static_cast<std::size_t>(width) - digits.size(), fill);
  }
  return digits;
}

// strftime in the C locale and UTC, whatever the process has set.
std::string format_moment(const Moment& moment, char field, bool plain) {
  static constexpr const char* kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                          "Thursday", "Friday", "Saturday"};
  static constexpr const char* kMonths[] = {"January",   "February", "March",    "April",
                                            "May",       "June",     "July",     "August",
                                            "September", "October",  "November", "December"};
  const int year = static_cast<int>(moment.date.year());
  const auto month = static_cast<unsigned>(moment.date.month());
  const int day = static_cast<int>(static_cast<unsigned>(moment.date.day()));
  const std::string day_name = kDays[moment.weekday], month_name = kMonths[month - 1];
  const auto part = [&moment](char inner) { return format_moment(moment, inner, false); };
  switch (field) {
    case 'Y':
      return number(year, 4, plain);
    case 'y':
      return number(year % 100, 2, plain);
    case 'm':
      return number(static_cast<int>(month), 2, plain);
    case 'd':
      return number(day, 2, plain);
    case 'e':
      return number(day, 2, plain, ' ');
    case 'j':
      return number(moment.year_day, 3, plain);
    case 'H':
      return number(moment.hour, 2, plain);
    case 'I':
      return number((moment.hour + 11) % 12 + 1, 2, plain);
    case 'M':
      return number(moment.minute, 2, plain);
    case 'S':
      return number(moment.second, 2, plain);
    case 'f':
      return "000000";
    case 'p':
      return moment.hour < 12 ? "AM" : "PM";
    case 'A':
      return day_name;
    case 'a':
      return day_name.substr(0, 3);
    case 'B':
      return month_name;
    case 'b':
    case 'h':
      return month_name.substr(0, 3);
    case 'w':
      return std::to_string(moment.weekday);
    case 'u':
      return std::to_string(moment.weekday == 0 ? 7 : moment.weekday);
    case 'D':
      return part('m') + "/" + part('d') + "/" + part('y');
    case 'F':
      return part('Y') + "-" + part('m') + "-" + part('d');
    case 'T':
      return part('H') + ":" + part('M') + ":" + part('S');
    case 'R':
      return part('H') + ":" + part('M');
    case 'Z':
    case 'z':
      return "";
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      break;
  }
  fail(std::string("'strftime_now' does not know '%") + field + "'");
}

Value function_strftime_now(Call& call) {
  const Text& format = call.text(0);
  const std::string& bytes = format.bytes();
  const Moment moment = moment_of(call.runtime().now_s());
  Text out;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t percent = std::min(bytes.find('%', i), bytes.size());
    out.append_slice(format, i, percent);
    if (percent == bytes.size()) break;
    const bool plain = percent + 1 < bytes.size() && bytes[percent + 1] == '-';
    const std::size_t field = percent + 1 + (plain ? 1 : 0);
    if (field >= bytes.size()) call.refuse("got a format that ends inside a field");
    out.append(format_moment(moment, bytes[field], plain), format.origin_at(percent));
    i = field + 1;
  }
  return call.runtime().text(std::move(out));
}

constexpr Builtin kFunctions[] = {
    {"raise_exception", "message", function_raise_exception},
    {"range", "start stop step", function_range},
    {"namespace", "*", function_namespace},
    {"dict", "*", function_dict},
    {"strftime_now", "format", function_strftime_now},
};

}  // namespace

const Builtin* find_function(std::string_view name) {
  const auto found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                  [name](const Builtin& entry) { return entry.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace quire::jinja
