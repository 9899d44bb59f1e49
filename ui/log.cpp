#include "ui/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <QtGlobal>
#include <cstdio>

#include "app/version.h"
#include "engine/paths.h"

namespace quire {
namespace {

constexpr std::size_t kMaxLogBytes = 2u << 20;

void forwardQtMessage(QtMsgType type, const QMessageLogContext&, const QString& message) {
  const std::string line = message.toStdString();
  switch (type) {
    case QtDebugMsg:
      spdlog::debug("qt: {}", line);
      break;
    case QtInfoMsg:
      spdlog::info("qt: {}", line);
      break;
    case QtWarningMsg:
      spdlog::warn("qt: {}", line);
      break;
    case QtCriticalMsg:
    case QtFatalMsg:
      spdlog::error("qt: {}", line);
      spdlog::default_logger()->flush();
      break;
  }
}

}  // namespace

QString logFilePath() {
  return QString::fromStdString(state_dir() + "/quire.log");
}

void startLogging() {
  auto terminal = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  terminal->set_level(spdlog::level::warn);
  std::vector<spdlog::sink_ptr> sinks{terminal};
  try {
    ensure_dir(state_dir());
    sinks.push_back(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        logFilePath().toStdString(), kMaxLogBytes, 1));
  } catch (const spdlog::spdlog_ex& error) {
    std::fprintf(stderr, "The log file cannot be written: %s\n", error.what());
  }
  auto logger = std::make_shared<spdlog::logger>("quire", sinks.begin(), sinks.end());
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
  qInstallMessageHandler(forwardQtMessage);
  spdlog::info("Quire {} on Qt {}, data in {}", QUIRE_VERSION, qVersion(), data_dir());
}

}  // namespace quire
