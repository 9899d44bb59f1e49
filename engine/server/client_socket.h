#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

using Deadline = std::chrono::steady_clock::time_point;
Deadline deadline_in(double seconds);

// One accepted, non-blocking TCP connection with what was received and not yet used. Every wait has
// a deadline. Connection thread only, except that another thread may shut the descriptor down,
// which ends any wait. Does not own the descriptor.
class ClientSocket {
 public:
  ClientSocket(int fd, double write_stall_s);
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  enum class ReadResult { kData, kClosed, kTimeout };
  // Waits for bytes and appends what is there, at most `max_bytes`, to buffered().
  ReadResult read_some(std::size_t max_bytes, Deadline deadline);
  std::string_view buffered() const { return std::string_view(buffer_).substr(begin_); }
  void consume(std::size_t count);

  // Sends all of it; false when the client is gone or took nothing for write_stall_s.
  bool write_all(std::string_view data);
  // The client closed or half-closed its side, or the descriptor was shut down. Sees through
  // unread bytes (pipelined requests).
  bool client_gone() const;

  // Ends a connection on which the client may still be sending: says that no more comes and reads
  // on for a moment, so that an answer just written is not lost to a reset.
  void close_after_answer();

  int fd() const { return fd_; }

 private:
  int fd_;
  double write_stall_s_;
  std::string buffer_;
  std::size_t begin_ = 0;  // buffer_[begin_, end) is unused
};

}  // namespace quire
