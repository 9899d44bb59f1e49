#pragma once

#include <QWidget>

#include "ui/engine_client.h"

class QLabel;
class QListWidget;
class QProgressBar;
class QPushButton;
class QTreeWidget;
class QTreeWidgetItem;

namespace quire {

class ModelLoader;

// The loaded model, a load in progress, and the library to choose from.
class ModelsPage : public QWidget {
  Q_OBJECT
 public:
  // Both must outlive the page.
  ModelsPage(EngineClient* client, ModelLoader* loader, QWidget* parent = nullptr);

 signals:
  void openFileWanted();
  void openFolderWanted();

 protected:
  void changeEvent(QEvent* event) override;

 private:
  QWidget* buildCurrent();
  QWidget* buildLibrary();
  void updateCurrent();
  void updateLibrary();
  void updateButtons();
  void loadSelected();
  void addRow(const QString& name, const QString& type, const QString& size, const QString& what,
              const QString& note);
  void applyTheme();

  EngineClient* m_client;
  ModelLoader* m_loader;
  QWidget* m_card = nullptr;
  QLabel* m_title = nullptr;
  QLabel* m_details = nullptr;
  QProgressBar* m_progress = nullptr;
  QPushButton* m_cancel = nullptr;
  QTreeWidget* m_library = nullptr;
  QLabel* m_libraryHint = nullptr;
  QPushButton* m_load = nullptr;
};

// "1.2 GiB", in the locale's numbers.
QString byteSize(quint64 bytes);

}  // namespace quire
