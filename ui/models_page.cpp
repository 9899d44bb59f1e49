#include "ui/models_page.h"

#include <QEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLocale>
#include <QProgressBar>
#include <QPushButton>
#include <QTreeWidget>
#include <QTreeWidgetItem>
#include <QVBoxLayout>

#include "engine/paths.h"
#include "ui/icons.h"
#include "ui/model_loader.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kWhatRole = Qt::UserRole + 1;  // what to load
constexpr int kProgressSteps = 1000;
enum Column { Name, Type, Size, Place };

QString text(const std::string& value) {
  return QString::fromStdString(value);
}

QLabel* wrapped() {
  auto* label = new QLabel;
  label->setTextFormat(Qt::PlainText);
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

void makeLarge(QLabel* label, double scale) {
  QFont font = label->font();
  font.setPointSizeF(font.pointSizeF() * scale);
  font.setWeight(QFont::DemiBold);
  label->setFont(font);
}

}  // namespace

QString byteSize(quint64 bytes) {
  return QLocale().formattedDataSize(static_cast<qint64>(bytes), 1);
}

ModelsPage::ModelsPage(EngineClient* client, ModelLoader* loader, QWidget* parent)
    : QWidget(parent), m_client(client), m_loader(loader) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(20, 18, 20, 18);
  layout->setSpacing(14);
  layout->addWidget(buildCurrent());
  layout->addWidget(buildLibrary(), 1);
  connect(m_client, &EngineClient::statusChanged, this, &ModelsPage::updateCurrent);
  connect(m_client, &EngineClient::modelChanged, this, &ModelsPage::updateCurrent);
  connect(m_loader, &ModelLoader::libraryChanged, this, &ModelsPage::updateLibrary);
  applyTheme();
  updateCurrent();
  updateLibrary();
}

QWidget* ModelsPage::buildCurrent() {
  m_card = new QFrame;
  m_card->setObjectName(QStringLiteral("card"));
  auto* layout = new QVBoxLayout(m_card);
  layout->setContentsMargins(16, 14, 16, 14);
  layout->setSpacing(6);
  m_title = wrapped();
  makeLarge(m_title, 1.25);
  layout->addWidget(m_title);
  m_details = wrapped();
  layout->addWidget(m_details);
  auto* row = new QHBoxLayout;
  m_progress = new QProgressBar;
  m_progress->setRange(0, kProgressSteps);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Load progress"));
  row->addWidget(m_progress, 1);
  m_cancel = new QPushButton(tr("Cancel"));
  connect(m_cancel, &QPushButton::clicked, m_loader, &ModelLoader::cancel);
  row->addWidget(m_cancel);
  layout->addLayout(row);
  return m_card;
}

QWidget* ModelsPage::buildLibrary() {
  auto* box = new QWidget;
  auto* layout = new QVBoxLayout(box);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(8);
  auto* heading = new QLabel(tr("Models on this machine"));
  makeLarge(heading, 1.1);
  layout->addWidget(heading);

  m_library = new QTreeWidget;
  m_library->setColumnCount(4);
  m_library->setHeaderLabels({tr("Name"), tr("Type"), tr("Size"), tr("Where")});
  m_library->setRootIsDecorated(false);
  m_library->setUniformRowHeights(true);
  m_library->setAllColumnsShowFocus(true);
  m_library->setAlternatingRowColors(false);
  m_library->setAccessibleName(tr("Models on this machine"));
  m_library->header()->setStretchLastSection(true);
  m_library->header()->setSectionResizeMode(Name, QHeaderView::ResizeToContents);
  m_library->header()->setSectionResizeMode(Type, QHeaderView::ResizeToContents);
  m_library->header()->setSectionResizeMode(Size, QHeaderView::ResizeToContents);
  m_library->setTextElideMode(Qt::ElideMiddle);
  connect(m_library, &QTreeWidget::itemSelectionChanged, this, &ModelsPage::updateButtons);
  connect(m_library, &QTreeWidget::itemActivated, this, &ModelsPage::loadSelected);
  layout->addWidget(m_library, 1);
  m_libraryHint = wrapped();
  m_libraryHint->setForegroundRole(QPalette::PlaceholderText);
  layout->addWidget(m_libraryHint);

  auto* row = new QHBoxLayout;
  m_load = new QPushButton(tr("&Load"));
  m_load->setDefault(true);
  connect(m_load, &QPushButton::clicked, this, &ModelsPage::loadSelected);
  row->addWidget(m_load);
  auto* file = new QPushButton(icon(QStringLiteral("open")), tr("&Open File…"));
  connect(file, &QPushButton::clicked, this, &ModelsPage::openFileWanted);
  row->addWidget(file);
  auto* folder = new QPushButton(tr("Open Fol&der…"));
  folder->setToolTip(tr("A Hugging Face folder with config.json and safetensors files"));
  connect(folder, &QPushButton::clicked, this, &ModelsPage::openFolderWanted);
  row->addWidget(folder);
  row->addStretch();
  auto* add = new QPushButton(tr("&Add Library Folder…"));
  add->setToolTip(tr("Lists the models of another folder too; they stay where they are"));
  connect(add, &QPushButton::clicked, this, [this] {
    const QString chosen = QFileDialog::getExistingDirectory(this, tr("Add Library Folder"));
    if (!chosen.isEmpty()) m_loader->addFolder(chosen);
  });
  row->addWidget(add);
  layout->addLayout(row);
  return box;
}

void ModelsPage::updateCurrent() {
  const HostStatus& status = m_client->status();
  const auto model = m_client->model();
  const bool loading = status.state == HostState::kLoading;
  const bool busy = loading || status.state == HostState::kDraining;
  m_progress->setVisible(busy);
  m_cancel->setVisible(busy);
  const QString name = text(status.model);
  if (status.state == HostState::kDraining) {
    m_title->setText(tr("Switching to %1").arg(name));
    m_details->setText(tr("Answers that are running are finished first."));
    m_progress->setRange(0, 0);
  } else if (loading) {
    m_title->setText(tr("Loading %1").arg(name));
    m_details->setText(
        tr("%1 of %2")
            .arg(byteSize(status.progress.bytes_done), byteSize(status.progress.bytes_total)));
    m_progress->setRange(0, kProgressSteps);
    const double total = std::max<double>(1, static_cast<double>(status.progress.bytes_total));
    m_progress->setValue(
        static_cast<int>(static_cast<double>(status.progress.bytes_done) / total * kProgressSteps));
  } else if (model != nullptr) {
    m_title->setText(model->id);
    m_details->setText(tr("%1 (%2)\n%3\nContext of %4 tokens. Weights take %5, the KV cache %6.")
                           .arg(model->name, model->description, model->backend,
                                QLocale().toString(model->engine.effective_context()),
                                byteSize(model->memory.weights), byteSize(model->memory.kv_pool)));
  } else if (status.state == HostState::kFailed) {
    m_title->setText(tr("No model is loaded"));
    m_details->setText(text(status.error));
  } else {
    m_title->setText(tr("No model is loaded"));
    m_details->setText(
        tr("Choose one below, open a GGUF file, or drop a file or folder onto this window."));
  }
  updateButtons();
}

void ModelsPage::addRow(const QString& name, const QString& type, const QString& size,
                        const QString& what, const QString& note) {
  auto* item = new QTreeWidgetItem(m_library);
  item->setText(Name, name);
  item->setText(Type, type);
  item->setText(Size, size);
  item->setTextAlignment(Size, Qt::AlignRight | Qt::AlignVCenter);
  item->setText(Place, note.isEmpty() ? what : note);
  item->setToolTip(Place, note.isEmpty() ? what : tr("%1\n%2").arg(what, note));
  item->setData(Name, kWhatRole, what);
  if (!note.isEmpty()) {
    item->setIcon(Name, QIcon(tinted(QStringLiteral("warning"), Theme::current().warning, 16,
                                     devicePixelRatioF())));
    item->setToolTip(Name, note);
  }
}

void ModelsPage::updateLibrary() {
  const QString selected = m_library->currentItem()
                               ? m_library->currentItem()->data(Name, kWhatRole).toString()
                               : QString();
  m_library->clear();
  for (const LibraryEntry& entry : m_loader->library()) {
    addRow(text(entry.name), text(entry.type), byteSize(entry.bytes), text(entry.path),
           text(entry.note));
  }
  addRow(tr("Built-in tiny model"), tr("for trying the engine"), tr("in memory"),
         QString::fromLatin1(kBuiltinTiny), {});
  for (int i = 0; i < m_library->topLevelItemCount(); ++i) {
    QTreeWidgetItem* item = m_library->topLevelItem(i);
    if (item->data(Name, kWhatRole).toString() == selected) m_library->setCurrentItem(item);
  }
  m_libraryHint->setVisible(m_loader->library().empty());
  m_libraryHint->setText(tr("No model file was found in %1. Put GGUF files there, open one from "
                            "anywhere, or drop it onto this window.")
                             .arg(text(models_dir())));
  updateButtons();
}

void ModelsPage::updateButtons() {
  if (m_load == nullptr) return;
  m_load->setEnabled(!m_library->selectedItems().isEmpty());
}

void ModelsPage::loadSelected() {
  const auto selected = m_library->selectedItems();
  if (!selected.isEmpty()) m_loader->open(selected.first()->data(Name, kWhatRole).toString());
}

void ModelsPage::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange && m_library != nullptr) {
    applyTheme();
    updateLibrary();
  }
  QWidget::changeEvent(event);
}

void ModelsPage::applyTheme() {
  const Theme& theme = Theme::current();
  const QString sheet =
      QStringLiteral("#card { background: %1; border: 1px solid %2; border-radius: 10px; }")
          .arg(theme.surface.name(), theme.border.name());
  if (m_card->styleSheet() != sheet) m_card->setStyleSheet(sheet);
}

}  // namespace quire
