#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace quire::test {

struct RawReply {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  std::vector<std::string> chunks;
};

// A TCP connection to 127.0.0.1 that sends exactly the bytes it is told to. Every wait ends after
// ten seconds, so a server that hangs fails a test instead of stopping it.
class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool send(std::string_view bytes);
  RawReply read_reply();
  // Reads until `wanted` was seen; false when the connection ended before.
  bool read_until(std::string_view wanted);
  std::string_view seen() const { return buffer_; }  // received and not yet taken
  // True when the server closes the connection without another byte.
  bool closed_by_server();
  void close();

 private:
  bool receive();

  int fd_ = -1;
  std::string buffer_;
};

std::string post(int port, const std::string& path, const std::string& body,
                 const std::string& more_headers = {});
std::string get(int port, const std::string& path, const std::string& more_headers = {});

// One request on a connection of its own.
RawReply ask(int port, const std::string& request);

}  // namespace quire::test
