#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace quire {

// Who listens to each unfinished request, and what each has been told. Engine thread only.
class Listeners {
 public:
  // Counters kept elsewhere. `concluded` comes after the request is forgotten and before its
  // listener hears the end, so that whoever waits for that sees it gone.
  struct Hooks {
    std::function<void()> left_queue;
    std::function<void()> concluded;
  };
  explicit Listeners(Hooks hooks) : hooks_(std::move(hooks)) {}

  void add(const Request& request, std::shared_ptr<RequestSink> sink, double submitted_s);
  // Turns what a step did into one update per request. Returns the requests whose listener is gone.
  std::vector<RequestId> deliver(std::span<RequestOutput> outputs, double step_begin_s,
                                 double now_s);
  // Tells every request not scheduled yet its place when that changed. Returns as `deliver` does.
  std::vector<RequestId> publish_queue_positions();
  // The last update of a request the core did not finish by itself; nothing for one unknown.
  void finish(RequestId id, FinishReason reason, const std::string& error);
  std::vector<RequestId> live() const;

 private:
  struct Listener {
    std::shared_ptr<RequestSink> sink;
    double submitted_s = 0;
    GenerationUpdate last;  // progress figures and times carried from update to update
    bool scheduled = false;
  };
  using Map = std::unordered_map<std::int64_t, Listener>;

  bool deliver(RequestOutput& output, double step_begin_s, double now_s);
  void conclude(Map::iterator it, GenerationUpdate update);
  void leave_queue(RequestId id);

  Hooks hooks_;
  Map map_;
  std::vector<RequestId> queued_;  // submitted, not scheduled yet, in order
};

}  // namespace quire
