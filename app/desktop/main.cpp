#include <QApplication>
#include <QCommandLineParser>
#include <QDir>
#include <QFileInfo>
#include <QLibraryInfo>
#include <QLocale>
#include <QTranslator>
#include <QUrl>

#include "app/version.h"
#include "engine/model_host.h"
#include "engine/paths.h"
#include "engine/settings.h"
#include "ui/chat_store.h"
#include "ui/engine_client.h"
#include "ui/icons.h"
#include "ui/log.h"
#include "ui/main_window.h"
#include "ui/single_instance.h"

namespace {

constexpr double kQuitDrainSeconds = 0;  // the person asked to quit: running answers are stopped

struct Arguments {
  QString model;
  QStringList files;
};

Arguments parseArguments(const QApplication& app) {
  QCommandLineParser parser;
  parser.setApplicationDescription(QCoreApplication::translate(
      "main", "Runs language models on your own machine, and shows you how."));
  parser.addHelpOption();
  parser.addVersionOption();
  const QCommandLineOption model(
      QStringLiteral("model"),
      QCoreApplication::translate("main",
                                  "Load this model: “starter”, “builtin:tiny”, a file or folder, "
                                  "or a name in the library."),
      QStringLiteral("model"));
  parser.addOption(model);
  parser.addPositionalArgument(
      QStringLiteral("file"),
      QCoreApplication::translate("main", "A GGUF file or Hugging Face folder to load."),
      QStringLiteral("[file]"));
  parser.process(app);
  Arguments arguments{parser.value(model), {}};
  for (const QString& argument : parser.positionalArguments()) {
    const QUrl url = QUrl::fromUserInput(argument, QDir::currentPath(), QUrl::AssumeLocalFile);
    arguments.files << (url.isLocalFile() ? url.toLocalFile() : argument);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  QCoreApplication::setApplicationName(QStringLiteral("quire"));
  QCoreApplication::setApplicationVersion(QStringLiteral(QUIRE_VERSION));
  QGuiApplication::setDesktopFileName(QStringLiteral("io.github.quire.Quire"));
  QGuiApplication::setApplicationDisplayName(QStringLiteral("Quire"));
  QApplication app(argc, argv);
  QTranslator qtTexts;
  if (qtTexts.load(QLocale(), QStringLiteral("qtbase"), QStringLiteral("_"),
                   QLibraryInfo::path(QLibraryInfo::TranslationsPath))) {
    QCoreApplication::installTranslator(&qtTexts);
  }
  const Arguments arguments = parseArguments(app);

  if (!quire::ensure_dir(quire::data_dir())) {
    qCritical("The folder %s cannot be made.", quire::data_dir().c_str());
    return 1;
  }
  const QStringList handOver = arguments.files.isEmpty() && !arguments.model.isEmpty()
                                   ? QStringList{arguments.model}
                                   : arguments.files;
  quire::SingleInstance instance(QString::fromStdString(quire::data_dir()));
  if (!instance.acquire()) {
    if (instance.handOver(handOver)) return 0;
    qCritical("Quire is already running with the data in %s, but it does not answer.",
              quire::data_dir().c_str());
    return 1;
  }
  quire::startLogging();

  std::string warning;
  quire::Settings settings = quire::Settings::load_file(warning);
  const std::shared_ptr<quire::ModelHost> host = quire::ModelHost::create();
  {
    quire::ChatStore store(quire::ChatStore::defaultPath());
    quire::EngineClient client(host);
    quire::MainWindow window(&client, &store, &settings);
    QObject::connect(&instance, &quire::SingleInstance::activated, &window,
                     &quire::MainWindow::openPaths);
    if (!warning.empty()) {
      quire::BarMessage message;
      message.kind = quire::BarKind::Warning;
      message.text = QString::fromStdString(warning);
      window.showMessage(message);
    }
    window.show();
    window.start(arguments.files.isEmpty() ? arguments.model : arguments.files.first());
    app.exec();
  }
  host->shutdown(kQuitDrainSeconds);
  return 0;
}
