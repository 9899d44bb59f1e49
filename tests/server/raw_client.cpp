#include "tests/server/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>

namespace quire::test {

RawClient::RawClient(int port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval ten_seconds{10, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &ten_seconds, sizeof(ten_seconds));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &ten_seconds, sizeof(ten_seconds));
  // Small, so that a client that does not read is felt soon.
  const int receive_bytes = 64 * 1024;
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) close();
}

RawClient::~RawClient() {
  close();
}

void RawClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool RawClient::receive() {
  char part[16384];
  const ssize_t got = ::recv(fd_, part, sizeof(part), 0);
  if (got <= 0) return false;
  buffer_.append(part, static_cast<std::size_t>(got));
  return true;
}

bool RawClient::read_until(std::string_view wanted) {
  while (buffer_.find(wanted) == std::string::npos) {
    if (!receive()) return false;
  }
  return true;
}

bool RawClient::closed_by_server() {
  if (!buffer_.empty()) return false;
  char byte;
  return ::recv(fd_, &byte, 1, 0) == 0;
}

RawReply RawClient::read_reply() {
  RawReply reply;
  if (!read_until("\r\n\r\n")) return reply;
  const auto end = buffer_.find("\r\n\r\n");
  std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  reply.status = std::atoi(head.c_str() + head.find(' '));
  for (auto at = head.find("\r\n") + 2; at < head.size();) {
    const auto line_end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    for (char& c : name) c = static_cast<char>(std::tolower(c));
    reply.headers[name] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  if (reply.status == 100) return read_reply();
  if (reply.headers.count("transfer-encoding") > 0) {
    while (read_until("\r\n")) {
      const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
      const std::size_t begin = buffer_.find("\r\n") + 2;
      while (buffer_.size() < begin + size + 2 && receive()) {
      }
      if (buffer_.size() < begin + size + 2) break;
      reply.chunks.push_back(buffer_.substr(begin, size));
      reply.body += reply.chunks.back();
      buffer_.erase(0, begin + size + 2);
      if (size == 0) break;
    }
    if (!reply.chunks.empty() && reply.chunks.back().empty()) reply.chunks.pop_back();
  } else if (reply.headers.count("content-length") > 0) {
    const std::size_t length = std::strtoul(reply.headers["content-length"].c_str(), nullptr, 10);
    while (buffer_.size() < length && receive()) {
    }
    reply.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
  } else {
    while (receive()) {
    }
    reply.body = std::move(buffer_);
    buffer_.clear();
  }
  return reply;
}

std::string post(int port, const std::string& path, const std::string& body,
                 const std::string& more_headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
         "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + more_headers + "\r\n" + body;
}

std::string get(int port, const std::string& path, const std::string& more_headers) {
  return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n" +
         more_headers + "\r\n";
}

RawReply ask(int port, const std::string& request) {
  RawClient client(port);
  client.send(request);
  return client.read_reply();
}

}  // namespace quire::test
