#include <csignal>
#include <cstdio>

#include "app/quire/commands.h"
#include "app/version.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Runs language models on this machine, and shows how.", "quire");
  app.set_version_flag("--version", std::string("quire ") + QUIRE_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong options, 3 the model could not be loaded, 4 the "
      "address is taken,\n"
      "5 outputs differ (bench core) or a step does (trace replay), 130 stopped by a second "
      "interrupt.");
  int exit_code = quire::kExitOk;
  quire::add_serve(app, exit_code);
  quire::add_chat(app, exit_code);
  quire::add_bench(app, exit_code);
  quire::add_inspect(app, exit_code);
  quire::add_models(app, exit_code);
  quire::add_trace(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? quire::kExitOk : quire::kExitUsage;
  }
  return exit_code;
}
