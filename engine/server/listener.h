#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "engine/result.h"
#include "engine/server/http_server.h"

namespace quire {

// What a connection is doing, so that the right one is closed when there are too many.
enum class ConnectionPhase : std::uint8_t {
  kIdle,     // waiting for a request's first byte
  kReading,  // a head or body is arriving
  kServing,  // a request is being answered
};

// One open connection as the listener sees it; the descriptor is valid while it is registered.
struct ConnectionEntry {
  int fd = -1;
  std::string peer;  // numeric address
  std::atomic<ConnectionPhase> phase{ConnectionPhase::kIdle};
  std::atomic<std::int64_t> phase_since_ns{0};  // steady clock
  bool evicted = false;  // shut down to make room; guarded by the listener's mutex
  bool refused = false;  // only told that there is no room; set before its thread starts

  void enter(ConnectionPhase next);
};

// Accepts connections and gives each its own thread, at most `max_connections`. When they are all
// taken, the longest idle one, or one that has been sending its request for over a second, makes
// room; if every one is being served, the newcomer gets a 503. So neither idle nor slow clients
// keep others out.
class Listener {
 public:
  // Called on the connection's thread; the listener closes the descriptor when it returns.
  using Serve = std::function<void(ConnectionEntry&)>;

  // Bound and listening; nothing is accepted before run().
  static Result<std::unique_ptr<Listener>> open(const std::string& host, int port,
                                                const ServerLimits& limits);
  ~Listener();

  int port() const { return port_; }
  void run(Serve serve, std::string busy_answer);

  // Stops accepting, frees the port and closes idle and reading connections at once; those being
  // served have `drain_s`, then they are shut down too. Returns when every thread has ended.
  void stop(double drain_s);
  bool stopping() const { return stopping_; }
  int num_connections() const;

 private:
  Listener(int fd, int port, const ServerLimits& limits);
  void accept_loop();
  void admit(int fd, std::string peer);
  void run_connection(const std::shared_ptr<ConnectionEntry>& entry);
  bool make_room();  // with mutex_ held; false when everyone is being served
  void shut_down(bool serving_too);

  const int fd_;  // open until stop()
  const int port_;
  const int max_connections_;
  int wake_fd_ = -1;
  Serve serve_;
  std::string busy_answer_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable all_gone_;
  std::list<std::shared_ptr<ConnectionEntry>> connections_;  // one thread each
  int num_refused_ = 0;
};

}  // namespace quire
