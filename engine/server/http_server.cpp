#include "engine/server/http_server.h"

#include <csignal>

#include "engine/server/access_policy.h"
#include "engine/server/api_context.h"
#include "engine/server/connection.h"
#include "engine/server/listener.h"
#include "engine/server/request_log.h"

namespace quire {
namespace {

constexpr std::size_t kMaxKeyBytes = 4096;
constexpr int kPortsTried = 100;

// Keeps the metrics reader attached to whatever engine the host runs.
class MetricsAttachment {
 public:
  MetricsAttachment(std::shared_ptr<ModelHost> host, std::shared_ptr<ServerMetrics> metrics)
      : host_(std::move(host)), metrics_(std::move(metrics)) {
    subscription_ = host_->subscribe([this](const HostStatus& status) {
      if (status.state == HostState::kReady) follow(host_->current());
    });
    follow(host_->current());
  }
  ~MetricsAttachment() {
    subscription_.reset();
    if (const auto model = model_.lock()) model->engine->remove_sink(reader_);
  }

 private:
  void follow(std::shared_ptr<HostedModel> model) {
    std::lock_guard lock(mutex_);
    if (model == nullptr || model == model_.lock()) return;
    reader_ = metrics_->attach(model->id);
    model->engine->add_sink(reader_);
    model_ = model;
  }

  const std::shared_ptr<ModelHost> host_;
  const std::shared_ptr<ServerMetrics> metrics_;
  std::mutex mutex_;  // guards what follows
  std::weak_ptr<HostedModel> model_;
  std::shared_ptr<EventSink> reader_;
  std::shared_ptr<void> subscription_;
};

class HttpServerImpl : public HttpServer {
 public:
  HttpServerImpl(ServerOptions options, std::shared_ptr<ModelHost> host,
                 std::unique_ptr<Listener> listener)
      : options_(std::move(options)),
        listener_(std::move(listener)),
        access_(options_, listener_->port()),
        body_budget_(options_.limits.max_total_body_bytes),
        log_(std::make_shared<RequestLog>()) {
    api_.host = host;
    api_.limits = options_.limits;
    api_.metrics = std::make_shared<ServerMetrics>();
    metrics_attachment_ = std::make_unique<MetricsAttachment>(std::move(host), api_.metrics);
    add_info_routes(router_, api_);
    add_generation_routes(router_, api_);
    add_text_routes(router_, api_);
    listener_->run(
        [this](ConnectionEntry& entry) {
          serve_connection(entry,
                           {options_.limits, access_, router_, *listener_, body_budget_, *log_});
        },
        raw_error_answer({.status = 503,
                          .message = "Too many connections; try again.",
                          .code = "too_many_connections",
                          .retry_after_s = 1}));
  }
  ~HttpServerImpl() override { stop(0); }

  int port() const override { return listener_->port(); }
  std::string address() const override {
    const bool v6 = options_.host.find(':') != std::string::npos;
    return "http://" + (v6 ? "[" + options_.host + "]" : options_.host) + ":" +
           std::to_string(port());
  }
  const ServerOptions& options() const override { return options_; }

  void stop(double drain_s) override {
    api_.stopping = true;
    listener_->stop(drain_s);
  }
  int active_connections() const override { return listener_->num_connections(); }
  int active_generations() const override { return api_.active_generations; }

  std::vector<RequestLogEntry> request_log(std::uint64_t after) const override {
    return log_->after(after);
  }
  std::shared_ptr<void> observe_log(LogListener listener) override {
    return log_->observe(std::move(listener));
  }

 private:
  const ServerOptions options_;
  std::unique_ptr<Listener> listener_;
  const AccessPolicy access_;
  BodyBudget body_budget_;
  std::shared_ptr<RequestLog> log_;
  Router router_;
  ApiContext api_;
  std::unique_ptr<MetricsAttachment> metrics_attachment_;
};

Status check_options(const ServerOptions& options) {
  for (const char c : options.api_key) {
    if (c <= 0x20 || c >= 0x7f) {
      return make_error(ErrorCode::kInvalidArgument,
                        "An API key may hold only visible ASCII characters, no spaces.");
    }
  }
  if (options.api_key.size() > kMaxKeyBytes) {
    return make_error(ErrorCode::kInvalidArgument, "The API key is too long.");
  }
  if (options.api_key.empty() && !is_loopback_host(options.host)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "Listening on '" + options.host +
                          "' lets other machines in: set an API key, or use 127.0.0.1.");
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::start(ServerOptions options,
                                                      std::shared_ptr<ModelHost> host) {
  QUIRE_CHECK(host != nullptr);
  QUIRE_RETURN_IF_ERROR(check_options(options));
  QUIRE_TRY(auto listener, Listener::open(options.host, options.port, options.limits));
  // A client that leaves must not end the program.
  std::signal(SIGPIPE, SIG_IGN);
  return std::unique_ptr<HttpServer>(
      std::make_unique<HttpServerImpl>(std::move(options), std::move(host), std::move(listener)));
}

int find_free_port(const std::string& host, int from) {
  for (int port = from; port < from + kPortsTried && port <= 65535; ++port) {
    auto listener = Listener::open(host, port, {});
    if (listener.ok()) return port;
  }
  return 0;
}

}  // namespace quire
