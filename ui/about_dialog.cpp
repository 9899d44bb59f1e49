#include "ui/about_dialog.h"

#include <QApplication>
#include <QClipboard>
#include <QDialogButtonBox>
#include <QFont>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/version.h"
#include "kernels/backend.h"
#include "ui/engine_client.h"
#include "ui/icons.h"
#include "ui/log.h"

namespace quire {
namespace {

constexpr int kIconSize = 72;
constexpr int kWidth = 580;

QLabel* selectable(const QString& text) {
  auto* label = new QLabel(text);
  label->setTextFormat(Qt::PlainText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  return label;
}

QString cpuPath(const ModelInfo* model) {
  if (model != nullptr && !model->backend.isEmpty()) return model->backend;
  return AboutDialog::tr("CPU, %1; physical cores: %2")
      .arg(QString::fromStdString(detect_isa()))
      .arg(physical_cores());
}

}  // namespace

AboutDialog::AboutDialog(const ModelInfo* model, QWidget* parent) : QDialog(parent) {
  setWindowTitle(tr("About Quire"));
  auto* layout = new QVBoxLayout(this);
  layout->setSpacing(12);
  layout->setContentsMargins(24, 20, 24, 16);

  auto* heading = new QHBoxLayout;
  heading->setSpacing(16);
  auto* picture = new QLabel;
  picture->setPixmap(applicationIcon().pixmap(QSize(kIconSize, kIconSize), devicePixelRatioF()));
  heading->addWidget(picture);
  auto* title = new QLabel(tr("Quire %1").arg(QStringLiteral(QUIRE_VERSION)));
  QFont large = title->font();
  large.setPointSizeF(large.pointSizeF() * 1.6);
  large.setBold(true);
  title->setFont(large);
  auto* words = new QVBoxLayout;
  words->addWidget(title);
  words->addWidget(selectable(tr("Runs language models on your own machine, and shows you how.")));
  heading->addLayout(words, 1);
  layout->addLayout(heading);

  auto* facts = new QFormLayout;
  facts->setHorizontalSpacing(16);
  facts->setLabelAlignment(Qt::AlignLeft | Qt::AlignTop);
  facts->addRow(tr("Computing with"), selectable(cpuPath(model)));
  if (model != nullptr) {
    facts->addRow(tr("Model"), selectable(tr("%1 (%2)").arg(model->name, model->description)));
  }
  facts->addRow(tr("Qt"), selectable(QString::fromLatin1(qVersion())));
  facts->addRow(tr("Log file"), selectable(logFilePath()));
  layout->addLayout(facts);

  layout->addWidget(selectable(
      tr("Quire’s sources are under the Apache License 2.0. This program links QCustomPlot, so as "
         "a whole it is distributed under the GNU General Public License, version 3 or later. It "
         "also uses Qt (LGPL-3), SQLite (public domain), PCRE2 (BSD), libsodium (ISC), utf8proc "
         "(MIT), cpp-httplib (MIT), nlohmann/json (MIT), spdlog and fmt (MIT).")));

  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close);
  auto* copy = buttons->addButton(tr("Copy Log Path"), QDialogButtonBox::ActionRole);
  connect(copy, &QPushButton::clicked, this,
          [] { QApplication::clipboard()->setText(logFilePath()); });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  layout->addWidget(buttons);
  resize(kWidth, layout->totalHeightForWidth(kWidth));
}

}  // namespace quire
