#include "engine/server/client_socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace quire {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kReadChunk = 16 * 1024;
constexpr double kLingerSeconds = 0.5;

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

// Waits for `events`; returns what happened, 0 on timeout.
short wait_for(int fd, short events, int timeout_ms) {
  pollfd entry{fd, events, 0};
  const int ready = ::poll(&entry, 1, timeout_ms);
  return ready > 0 ? entry.revents : static_cast<short>(0);
}

}  // namespace

Deadline deadline_in(double seconds) {
  return steady_clock::now() + milliseconds(static_cast<long long>(seconds * 1000));
}

ClientSocket::ClientSocket(int fd, double write_stall_s) : fd_(fd), write_stall_s_(write_stall_s) {}

ClientSocket::ReadResult ClientSocket::read_some(std::size_t max_bytes, Deadline deadline) {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const std::size_t old_size = buffer_.size(), room = std::min(max_bytes, kReadChunk);
  while (true) {
    buffer_.resize(old_size + room);
    const ssize_t got = ::recv(fd_, buffer_.data() + old_size, room, MSG_DONTWAIT);
    buffer_.resize(old_size + (got > 0 ? static_cast<std::size_t>(got) : 0));
    if (got > 0) return ReadResult::kData;
    if (got == 0) return ReadResult::kClosed;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return ReadResult::kClosed;
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) return ReadResult::kTimeout;
    wait_for(fd_, POLLIN, timeout);
  }
}

void ClientSocket::consume(std::size_t count) {
  begin_ += std::min(count, buffer_.size() - begin_);
}

bool ClientSocket::write_all(std::string_view data) {
  Deadline deadline = deadline_in(write_stall_s_);
  while (!data.empty()) {
    const ssize_t sent = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      data.remove_prefix(static_cast<std::size_t>(sent));
      deadline = deadline_in(write_stall_s_);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const int timeout = milliseconds_until(deadline);
    if (timeout == 0) return false;
    if ((wait_for(fd_, POLLOUT | POLLRDHUP, timeout) & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
      return false;
    }
  }
  return true;
}

bool ClientSocket::client_gone() const {
  return (wait_for(fd_, POLLRDHUP, 0) & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

void ClientSocket::close_after_answer() {
  ::shutdown(fd_, SHUT_WR);
  const Deadline deadline = deadline_in(kLingerSeconds);
  do {
    consume(buffered().size());
  } while (steady_clock::now() < deadline && read_some(kReadChunk, deadline) == ReadResult::kData);
}

}  // namespace quire
