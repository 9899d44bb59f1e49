#pragma once

#include <QDialog>

class QListWidget;
class QScrollArea;

namespace quire {

// The help pages of resources/help, one at a time. GUI thread only.
class HelpWindow : public QDialog {
  Q_OBJECT
 public:
  explicit HelpWindow(QWidget* parent = nullptr);

 private:
  void showPage(int row);

  QListWidget* m_pages;
  QScrollArea* m_area;
};

}  // namespace quire
