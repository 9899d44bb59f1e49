#include "ui/chat_settings_dialog.h"

#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QFormLayout>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QRegularExpressionValidator>
#include <QSpinBox>
#include <QVBoxLayout>
#include <cmath>
#include <limits>

namespace quire {
namespace {

// A spin box shows decimals; the value behind it is a float.
float fromBox(const QDoubleSpinBox* box) {
  return static_cast<float>(box->value());
}

double toBox(float value) {
  return std::round(static_cast<double>(value) * 1000) / 1000;
}

}  // namespace

ChatSettingsDialog::ChatSettingsDialog(const ChatSettings& settings, QWidget* parent)
    : QDialog(parent) {
  setWindowTitle(tr("Chat Settings"));
  auto* layout = new QVBoxLayout(this);
  layout->setSpacing(10);
  auto* systemLabel = new QLabel(tr("&System prompt"));
  layout->addWidget(systemLabel);
  m_system = new QPlainTextEdit;
  m_system->setPlaceholderText(tr("How the model should behave in this chat. May be empty."));
  m_system->setTabChangesFocus(true);
  m_system->setMinimumHeight(80);
  systemLabel->setBuddy(m_system);
  layout->addWidget(m_system, 1);

  auto* form = new QFormLayout;
  form->setHorizontalSpacing(16);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  m_temperature = number(0, 5, 0.1, 2, tr("0 always takes the likeliest token."));
  form->addRow(tr("Temperat&ure"), m_temperature);
  m_topP = number(0.01, 1, 0.05, 2, tr("Keeps the likeliest tokens whose shares add up to this."));
  form->addRow(tr("Top-&p"), m_topP);
  m_topK = new QSpinBox;
  m_topK->setRange(0, 1'000'000);
  m_topK->setSpecialValueText(tr("all"));
  m_topK->setToolTip(tr("Keeps this many of the likeliest tokens."));
  form->addRow(tr("Top-&k"), m_topK);
  m_minP = number(0, 1, 0.01, 3, tr("Drops tokens less likely than this share of the likeliest."));
  form->addRow(tr("&Min-p"), m_minP);
  m_maxTokens = new QSpinBox;
  m_maxTokens->setRange(-1, std::numeric_limits<int>::max());
  m_maxTokens->setSpecialValueText(tr("until the context is full"));
  m_maxTokens->setToolTip(tr("An answer ends after this many tokens."));
  form->addRow(tr("Ma&ximum tokens"), m_maxTokens);
  m_seed = new QLineEdit;
  m_seed->setPlaceholderText(tr("a new one for each answer"));
  m_seed->setToolTip(tr("The same seed gives the same answer again."));
  m_seed->setValidator(
      new QRegularExpressionValidator(QRegularExpression(QStringLiteral("\\d{0,19}")), m_seed));
  form->addRow(tr("S&eed"), m_seed);
  m_repetition = number(0.1, 5, 0.05, 2, tr("Above 1 makes tokens of the chat less likely."));
  form->addRow(tr("&Repetition penalty"), m_repetition);
  m_presence = number(-2, 2, 0.1, 2, tr("Above 0 makes tokens of the answer less likely, once."));
  form->addRow(tr("Prese&nce penalty"), m_presence);
  m_frequency =
      number(-2, 2, 0.1, 2, tr("Above 0 makes tokens of the answer less likely with each use."));
  form->addRow(tr("&Frequency penalty"), m_frequency);
  layout->addLayout(form);

  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel |
                                       QDialogButtonBox::RestoreDefaults);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(buttons->button(QDialogButtonBox::RestoreDefaults), &QPushButton::clicked, this, [this] {
    fill(ChatSettings{m_system->toPlainText(), {}});
  });
  layout->addWidget(buttons);
  fill(settings);
  resize(460, sizeHint().height());
}

QDoubleSpinBox* ChatSettingsDialog::number(double low, double high, double step, int decimals,
                                           const QString& help) {
  auto* box = new QDoubleSpinBox;
  box->setRange(low, high);
  box->setSingleStep(step);
  box->setDecimals(decimals);
  box->setToolTip(help);
  return box;
}

void ChatSettingsDialog::fill(const ChatSettings& settings) {
  const SamplingParams& s = settings.sampling;
  m_system->setPlainText(settings.systemPrompt);
  m_temperature->setValue(toBox(s.temperature));
  m_topP->setValue(toBox(s.top_p));
  m_topK->setValue(s.top_k);
  m_minP->setValue(toBox(s.min_p));
  m_maxTokens->setValue(s.max_tokens);
  m_seed->setText(s.seed ? QString::number(*s.seed) : QString());
  m_repetition->setValue(toBox(s.repetition_penalty));
  m_presence->setValue(toBox(s.presence_penalty));
  m_frequency->setValue(toBox(s.frequency_penalty));
}

ChatSettings ChatSettingsDialog::settings() const {
  ChatSettings result;
  result.systemPrompt = m_system->toPlainText();
  SamplingParams& s = result.sampling;
  s.temperature = fromBox(m_temperature);
  s.top_p = fromBox(m_topP);
  s.top_k = m_topK->value();
  s.min_p = fromBox(m_minP);
  s.max_tokens = m_maxTokens->value();
  bool ok = false;
  const qulonglong seed = m_seed->text().toULongLong(&ok);
  if (ok) s.seed = seed;
  s.repetition_penalty = fromBox(m_repetition);
  s.presence_penalty = fromBox(m_presence);
  s.frequency_penalty = fromBox(m_frequency);
  return result;
}

}  // namespace quire
