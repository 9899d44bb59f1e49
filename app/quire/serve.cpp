#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "app/quire/commands.h"
#include "app/quire/model_flags.h"
#include "app/quire/signals.h"
#include "app/version.h"
#include "engine/server/http_server.h"
#include "engine/trace/recorder.h"

namespace quire {
namespace {

constexpr double kDrainSeconds = 30;

struct ServeFlags {
  ModelFlags model;
  ServerOptions server;
  std::string api_key_file;
  std::string record_file;  // empty: no recording
};

// What --record keeps while the model runs. Touched by the host's thread while loading, afterwards
// by the main one.
struct Recording {
  std::shared_ptr<TraceRecorder> recorder;

  Status start(HostedModel& model, const std::string& path) {
    TraceHeader header;
    header.program = std::string("quire ") + QUIRE_VERSION;
    header.model = model.id;
    header.block_bytes =
        static_cast<std::int64_t>(model.memory.kv_pool) / model.engine->config().num_blocks;
    header.started_unix_s = std::chrono::duration_cast<std::chrono::seconds>(
                                std::chrono::system_clock::now().time_since_epoch())
                                .count();
    QUIRE_TRY(recorder, record_engine(*model.engine, path, header, print_error));
    return Ok{};
  }
  void stop(HostedModel& model) {
    if (recorder == nullptr) return;
    model.engine->remove_sink(recorder);
    recorder->finish();
  }
};

Status read_api_key(ServeFlags& flags) {
  if (!flags.api_key_file.empty()) {
    std::ifstream file(flags.api_key_file);
    if (!std::getline(file, flags.server.api_key) || flags.server.api_key.empty()) {
      return make_error(ErrorCode::kIo,
                        "No API key could be read from " + flags.api_key_file + ".");
    }
  } else if (const char* key = std::getenv("QUIRE_API_KEY");
             flags.server.api_key.empty() && key != nullptr) {
    flags.server.api_key = key;
  }
  return Ok{};
}

// The first signal lets what is running finish; a second one ends the program at once.
void exit_on_second_signal() {
  std::thread([] {
    wait_for_signal();
    std::_Exit(kExitInterrupted);
  }).detach();
}

int serve(ServeFlags& flags) {
  block_stop_signals();
  if (Status key = read_api_key(flags); !key.ok()) {
    print_error(key.error().message);
    return kExitUsage;
  }
  auto host = ModelHost::create();
  auto server = HttpServer::start(flags.server, host);
  if (!server.ok()) {
    print_error(server.error().message);
    return server.error().code == ErrorCode::kInvalidArgument ? kExitUsage : kExitAddress;
  }
  // Loading happens while the server already answers (503, /health says loading); a signal cancels
  // it.
  std::shared_ptr<HostedModel> model;
  Recording recording;
  if (!flags.record_file.empty()) {
    flags.model.load.on_started = [&](HostedModel& loaded) {
      return recording.start(loaded, flags.record_file);
    };
  }
  std::atomic<bool> stopping{false};
  std::thread loader([&] {
    model = load_for_command(*host, flags.model);
    if (model == nullptr) {
      if (!stopping) kill(getpid(), SIGTERM);  // ends the wait below
      return;
    }
    const EngineConfig config = model->engine->config();
    fmt::print(stderr,
               "quire {}: {} ({}), {}\n"
               "  KV pool {} blocks of {} tokens, context {} tokens\n"
               "  {}\n"
               "  {}\n"
               "  listening on {}/v1\n",
               QUIRE_VERSION, model->id, model->description, model->backend_description,
               config.num_blocks, config.block_size, config.effective_context(),
               describe_memory(model->memory), describe_scheduling(config), (*server)->address());
    if (!flags.record_file.empty()) {
      fmt::print(stderr, "  recording to {}: it holds prompts and answers, readable by you only\n",
                 flags.record_file);
    }
  });
  wait_for_signal();
  stopping = true;
  exit_on_second_signal();
  host->cancel_load();
  loader.join();
  if (model == nullptr) {
    (*server)->stop(0);
    return kExitModel;
  }
  fmt::print(stderr, "quire: finishing {} requests; interrupt again to stop at once\n",
             model->engine->num_unfinished());
  (*server)->stop(kDrainSeconds);
  recording.stop(*model);
  model.reset();
  host->shutdown(0);
  return kExitOk;
}

}  // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ServeFlags>();
  flags->server.host = flags->model.settings.server.host;
  flags->server.port = flags->model.settings.server.port;
  flags->server.api_key = flags->model.settings.server.api_key;
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI-style API");
  flags->model.add_to(*command, true);
  command
      ->add_option("--host", flags->server.host,
                   "Address to listen on; other than loopback needs a key")
      ->capture_default_str();
  command->add_option("--port", flags->server.port, "Port; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option(
      "--api-key", flags->server.api_key,
      "Key clients must send; --api-key-file or QUIRE_API_KEY keep it out of the process list");
  command->add_option("--api-key-file", flags->api_key_file, "File whose first line is the key");
  command->add_option("--record", flags->record_file,
                      "Record every step to this file, for `quire trace`; it holds prompts and "
                      "answers");
  command->callback([flags, &exit_code] { exit_code = serve(*flags); });
}

}  // namespace quire
