#pragma once

#include <QDialog>

namespace quire {

struct ModelInfo;

// Version, licences, the CPU path in use and where the log is. `model` may be null.
class AboutDialog : public QDialog {
  Q_OBJECT
 public:
  explicit AboutDialog(const ModelInfo* model, QWidget* parent = nullptr);
};

}  // namespace quire
