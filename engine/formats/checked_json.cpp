#include "engine/formats/checked_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/formats/messages.h"

namespace quire {
namespace {

using Json = nlohmann::json;

// Stops the parser from inside its callback, which has no other way out.
struct Stop {
  std::string reason;
};

// Sees every value start and key as the parser meets them.
class Watcher {
 public:
  bool operator()(Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (levels_.size() == kMaxJsonDepth)
          throw Stop{fmt::format("nests deeper than {} levels", kMaxJsonDepth)};
        levels_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        levels_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!levels_.back().insert(parsed.get_ref<const std::string&>()).second)
          throw Stop{"has the key " + in_quotes(parsed.get_ref<const std::string&>()) + " twice"};
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  }

 private:
  std::vector<std::unordered_set<std::string>> levels_;  // the keys of each open object
};

}  // namespace

Result<Json> parse_checked_json(std::string_view text, const std::string& what) {
  Watcher watcher;
  try {
    return Json::parse(text.begin(), text.end(),
                       [&watcher](int, Json::parse_event_t event, Json& parsed) {
                         return watcher(event, parsed);
                       });
  } catch (const Stop& stop) {
    return make_error(ErrorCode::kBadModelFile, fmt::format("{} {}.", what, stop.reason));
  } catch (const Json::parse_error& error) {
    return make_error(ErrorCode::kBadModelFile,
                      fmt::format("{} is not valid JSON at byte {}.", what, error.byte));
  } catch (const Json::exception&) {
    return make_error(ErrorCode::kBadModelFile,
                      fmt::format("{} holds a number that is out of range.", what));
  }
}

}  // namespace quire
