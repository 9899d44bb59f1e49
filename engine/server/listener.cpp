#include "engine/server/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "engine/server/client_socket.h"

namespace quire {
namespace {

using std::chrono::steady_clock;

constexpr int kBacklog = 512;
constexpr int kSendBufferBytes = 256 * 1024;  // left to itself it grows to megabytes
constexpr int kMaxRefused = 16;  // being told so at once; more are closed without a word
constexpr double kRefusalSeconds = 0.5;
constexpr std::int64_t kSlowRequestNs = 1'000'000'000;

std::int64_t now_ns() {
  return std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

bool resolve(const std::string& host, int port, AddressList& list) {
  // "localhost" may stand for ::1 in the hosts file; clients are told 127.0.0.1.
  const std::string name = host == "localhost" ? "127.0.0.1" : host;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  return ::getaddrinfo(name.empty() ? nullptr : name.c_str(), std::to_string(port).c_str(), &hints,
                       &list.first) == 0;
}

// A bound socket, or -1 with errno set.
int bind_one(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          address.ai_protocol);
  if (fd < 0) return -1;
  const int on = 1;
  // Never SO_REUSEPORT: a second server on the same port must fail, not share it.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

Error bind_error(int error, const std::string& host, int port) {
  const std::string where = host + ":" + std::to_string(port);
  switch (error) {
    case EADDRINUSE:
      return make_error(ErrorCode::kAddressInUse,
                        "Port " + std::to_string(port) + " on " + host +
                            " is in use by another program; choose another port.");
    case EACCES:
      return make_error(ErrorCode::kPermissionDenied, "This user may not listen on " + where +
                                                          "; ports below 1024 need more rights.");
    case EADDRNOTAVAIL:
      return make_error(ErrorCode::kInvalidArgument,
                        "'" + host + "' is not an address of this machine.");
    default:
      return make_error(ErrorCode::kIo, "Could not listen on " + where + ": " +
                                            std::generic_category().message(error) + ".");
  }
}

int bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string numeric_address(const sockaddr_storage& address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  const int failed = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text,
                                   sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text : "?";
}

}  // namespace

void ConnectionEntry::enter(ConnectionPhase next) {
  phase_since_ns = now_ns();
  phase = next;
}

Result<std::unique_ptr<Listener>> Listener::open(const std::string& host, int port,
                                                 const ServerLimits& limits) {
  if (port < 0 || port > 65535) {
    return make_error(ErrorCode::kInvalidArgument, "A port is a number from 0 to 65535.");
  }
  AddressList list;
  if (!resolve(host, port, list)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'" + host + "' is not an address or name this machine can listen on.");
  }
  int fd = -1, error = EADDRNOTAVAIL;
  for (const addrinfo* entry = list.first; entry != nullptr && fd < 0; entry = entry->ai_next) {
    fd = bind_one(*entry);
    if (fd < 0) error = errno;
  }
  if (fd >= 0 && ::listen(fd, kBacklog) != 0) {
    error = errno;
    ::close(fd);
    fd = -1;
  }
  if (fd < 0) return bind_error(error, host, port);
  return std::unique_ptr<Listener>(new Listener(fd, bound_port(fd), limits));
}

Listener::Listener(int fd, int port, const ServerLimits& limits)
    : fd_(fd),
      port_(port),
      max_connections_(limits.max_connections),
      wake_fd_(::eventfd(0, EFD_CLOEXEC)) {}

Listener::~Listener() {
  stop(0);
  ::close(wake_fd_);
}

void Listener::run(Serve serve, std::string busy_answer) {
  serve_ = std::move(serve);
  busy_answer_ = std::move(busy_answer);
  thread_ = std::thread([this] { accept_loop(); });
}

void Listener::accept_loop() {
  while (!stopping_) {
    pollfd entries[2] = {{fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0 || stopping_) continue;
    sockaddr_storage address{};
    socklen_t length = sizeof(address);
    const int fd = ::accept4(fd_, reinterpret_cast<sockaddr*>(&address), &length,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      admit(fd, numeric_address(address, length));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      // The pending connection stays readable: without a pause this would spin.
      std::lock_guard lock(mutex_);
      make_room();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
}

void Listener::admit(int fd, std::string peer) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
  auto entry = std::make_shared<ConnectionEntry>();
  entry->fd = fd;
  entry->peer = std::move(peer);
  std::lock_guard lock(mutex_);
  entry->refused =
      static_cast<int>(connections_.size()) - num_refused_ >= max_connections_ && !make_room();
  entry->enter(entry->refused ? ConnectionPhase::kServing : ConnectionPhase::kIdle);
  if (entry->refused && num_refused_ >= kMaxRefused) {
    ::close(fd);
    return;
  }
  try {
    std::thread([this, entry] { run_connection(entry); }).detach();
  } catch (const std::system_error&) {
    ::close(fd);
    return;
  }
  connections_.push_back(entry);
  num_refused_ += entry->refused;
}

void Listener::run_connection(const std::shared_ptr<ConnectionEntry>& entry) {
  if (entry->refused) {
    ClientSocket socket(entry->fd, kRefusalSeconds);
    if (socket.write_all(busy_answer_)) socket.close_after_answer();
  } else {
    serve_(*entry);
  }
  const std::lock_guard lock(mutex_);
  // Closed under the lock: nobody can shut down a descriptor number that was given away.
  ::close(entry->fd);
  connections_.remove(entry);
  num_refused_ -= entry->refused;
  all_gone_.notify_all();
}

bool Listener::make_room() {
  ConnectionEntry* victim = nullptr;
  const std::int64_t now = now_ns();
  for (const auto& entry : connections_) {
    const auto phase = entry->phase.load();
    const bool slow =
        phase == ConnectionPhase::kReading && now - entry->phase_since_ns > kSlowRequestNs;
    if (entry->evicted || (phase != ConnectionPhase::kIdle && !slow)) continue;
    if (victim == nullptr || entry->phase_since_ns < victim->phase_since_ns) victim = entry.get();
  }
  if (victim == nullptr) return false;
  victim->evicted = true;
  ::shutdown(victim->fd, SHUT_RDWR);
  return true;
}

void Listener::shut_down(bool serving_too) {
  std::lock_guard lock(mutex_);
  for (const auto& entry : connections_) {
    if (serving_too || entry->phase != ConnectionPhase::kServing) ::shutdown(entry->fd, SHUT_RDWR);
  }
}

void Listener::stop(double drain_s) {
  if (!stopping_.exchange(true)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof(one));
    if (thread_.joinable()) thread_.join();
    ::close(fd_);
    shut_down(false);
    std::unique_lock lock(mutex_);
    all_gone_.wait_for(lock, std::chrono::duration<double>(drain_s),
                       [this] { return connections_.empty(); });
  }
  shut_down(true);
  std::unique_lock lock(mutex_);
  all_gone_.wait(lock, [this] { return connections_.empty(); });
}

int Listener::num_connections() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(connections_.size());
}

}  // namespace quire
