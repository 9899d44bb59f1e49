#include "engine/server/responder.h"

#include <httplib.h>

#include <algorithm>

namespace quire {
namespace {

// Gives httplib a canonical head to read and sends what it writes.
class ReplyStream : public httplib::Stream {
 public:
  ReplyStream(ClientSocket& socket, std::string head) : socket_(socket), head_(std::move(head)) {}

  bool is_readable() const override { return position_ < head_.size(); }
  bool is_writable() const override { return !socket_.client_gone(); }

  ssize_t read(char* target, std::size_t size) override {
    const std::size_t count = std::min(size, head_.size() - position_);
    std::copy_n(head_.data() + position_, count, target);
    position_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, std::size_t size) override {
    return socket_.write_all({data, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  // Only compared with FD_SETSIZE, which does not bind us: nothing here calls select.
  socket_t socket() const override { return -1; }

 private:
  ClientSocket& socket_;
  std::string head_;
  std::size_t position_ = 0;
};

class SinkWriter : public BodyWriter {
 public:
  explicit SinkWriter(httplib::DataSink& sink) : sink_(sink) {}
  bool write(std::string_view data) override {
    // An empty chunk would end the body.
    if (!data.empty() && alive_) alive_ = sink_.write(data.data(), data.size());
    return alive_;
  }
  bool alive() const { return alive_; }

 private:
  httplib::DataSink& sink_;
  bool alive_ = true;
};

std::string canonical_head(const HttpRequest& request, bool close) {
  // The path is not passed on: routing was done, and nothing of the client's is parsed twice.
  std::string head = request.method + " / HTTP/1." + (request.http_1_0 ? "0" : "1") + "\r\n";
  if (close) head += "Connection: close\r\n";
  return head + "\r\n";
}

void fill(httplib::Response& response, HttpReply reply, bool http_1_0) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  if (!reply.stream) {
    response.set_content(std::move(reply.body), reply.content_type);
    return;
  }
  auto provider = [stream = std::move(reply.stream)](std::size_t, httplib::DataSink& sink) {
    SinkWriter writer(sink);
    stream(writer);
    if (!writer.alive()) return false;
    sink.done();
    return true;
  };
  if (http_1_0) {
    response.set_content_provider(reply.content_type, std::move(provider));
  } else {
    response.set_chunked_content_provider(reply.content_type, std::move(provider));
  }
}

}  // namespace

class Responder::Core : public httplib::Server {
 public:
  Core(double keep_alive_s, int keep_alive_max) {
    set_keep_alive_timeout(static_cast<time_t>(keep_alive_s));
    set_keep_alive_max_count(static_cast<std::size_t>(keep_alive_max));
    set_pre_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      fill(response, (*handler_)(), http_1_0_);
      return HandlerResponse::Handled;
    });
    // Streaming stops when this is INVALID_SOCKET, its mark for a server that is not running.
    svr_sock_ = 0;
  }

  bool run(httplib::Stream& stream, bool close, bool http_1_0,
           const std::function<HttpReply()>& handler) {
    handler_ = &handler;
    http_1_0_ = http_1_0;
    bool closed = false;
    return process_request(stream, close, closed, nullptr) && !closed;
  }

 private:
  const std::function<HttpReply()>* handler_ = nullptr;
  bool http_1_0_ = false;
};

Responder::Responder(double keep_alive_s, int keep_alive_max)
    : core_(std::make_unique<Core>(keep_alive_s, keep_alive_max)) {}

Responder::~Responder() = default;

bool Responder::respond(ClientSocket& socket, const HttpRequest& request, bool close,
                        const std::function<HttpReply()>& handler) {
  ReplyStream stream(socket, canonical_head(request, close));
  return core_->run(stream, close, request.http_1_0, handler) && !close;
}

}  // namespace quire
