#pragma once

#include <QDialog>

#include "ui/chat_types.h"

class QCheckBox;
class QDoubleSpinBox;
class QLineEdit;
class QPlainTextEdit;
class QSpinBox;

namespace quire {

// System prompt and sampling of one chat.
class ChatSettingsDialog : public QDialog {
  Q_OBJECT
 public:
  explicit ChatSettingsDialog(const ChatSettings& settings, QWidget* parent = nullptr);

  ChatSettings settings() const;

 private:
  void fill(const ChatSettings& settings);
  QDoubleSpinBox* number(double low, double high, double step, int decimals, const QString& help);

  QPlainTextEdit* m_system;
  QDoubleSpinBox *m_temperature, *m_topP, *m_minP, *m_repetition, *m_presence, *m_frequency;
  QSpinBox *m_topK, *m_maxTokens;
  QLineEdit* m_seed;
};

}  // namespace quire
