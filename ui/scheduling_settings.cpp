#include "ui/scheduling_settings.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSpinBox>

#include "engine/load_config.h"

namespace quire {
namespace {

constexpr int kSettleMs = 400;  // after the last key, before the engine is asked

QSpinBox* spin(QWidget* parent, int low, int high, int stepBy, const QString& lowest,
               const QString& help) {
  auto* field = new QSpinBox(parent);
  field->setRange(low, high);
  field->setSingleStep(stepBy);
  field->setGroupSeparatorShown(true);
  if (!lowest.isEmpty()) field->setSpecialValueText(lowest);
  field->setToolTip(help);
  return field;
}

// Entries are in the order of the enumerators.
QComboBox* choice(QWidget* parent, const QStringList& entries, const QString& help) {
  auto* field = new QComboBox(parent);
  field->addItems(entries);
  field->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  field->setMinimumContentsLength(8);
  field->setToolTip(help);
  return field;
}

}  // namespace

SchedulingSettings::SchedulingSettings(EngineClient* client, Settings* settings, QWidget* parent)
    : QWidget(parent), m_client(client), m_settings(settings) {
  auto* form = new QFormLayout(this);
  m_alone = spin(this, 0, kMaxPrefillChunk, 256, tr("whole prompt"),
                 tr("Most prompt tokens of a step while no other answer is being written"));
  m_contended = spin(this, 0, kMaxPrefillChunk, 128, tr("whole prompt"),
                     tr("Most prompt tokens of a step while an answer is being written: less makes "
                        "the answer's pauses shorter and the prompt's wait longer"));
  m_pause = spin(this, 0, 60000, 10, tr("no target"),
                 tr("Longest pause wanted between two tokens of an answer. Prompts beside it are "
                    "cut to what fits, by the step times measured so far."));
  m_pause->setSuffix(tr(" ms"));
  m_budget =
      spin(this, 1, 1 << 20, 256, {}, tr("Most tokens one step computes, all requests together"));
  m_seqs = spin(this, 1, 65536, 1, {}, tr("Most requests running at once"));
  m_policy = choice(this, {tr("by arrival"), tr("by priority"), tr("longest cached prefix")},
                    tr("Which waiting request is admitted next"));
  m_victim = choice(this, {tr("the last admitted"), tr("the cheapest")},
                    tr("Which of several equal requests gives its blocks back when the pool is "
                       "full"));
  m_mode =
      choice(this, {tr("compute again"), tr("keep in host memory"), tr("whichever is quicker")},
             tr("What becomes of the keys and values of a request that gave its blocks back"));

  form->addRow(tr("Prefill &chunk"), m_alone);
  form->addRow(tr("&Beside answers"), m_contended);
  form->addRow(tr("Longest &pause"), m_pause);
  form->addRow(tr("Token b&udget per step"), m_budget);
  form->addRow(tr("Running re&quests"), m_seqs);
  form->addRow(tr("&Admission"), m_policy);
  form->addRow(tr("Preempted &first"), m_victim);
  form->addRow(tr("&Then"), m_mode);
  m_state = new QLabel(this);
  m_state->setWordWrap(true);
  m_state->setForegroundRole(QPalette::PlaceholderText);
  form->addRow(m_state);

  m_soon.setSingleShot(true);
  m_soon.setInterval(kSettleMs);
  connect(&m_soon, &QTimer::timeout, this, &SchedulingSettings::apply);
  for (QSpinBox* field : {m_alone, m_contended, m_pause, m_budget, m_seqs})
    connect(field, &QSpinBox::valueChanged, &m_soon, qOverload<>(&QTimer::start));
  for (QComboBox* field : {m_policy, m_victim, m_mode})
    connect(field, &QComboBox::currentIndexChanged, &m_soon, qOverload<>(&QTimer::start));
  connect(m_client, &EngineClient::modelChanged, this, &SchedulingSettings::showConfig);
  connect(m_client, &EngineClient::reconfigured, this, &SchedulingSettings::finishApply);
  showConfig();
}

EngineConfig SchedulingSettings::chosenConfig() const {
  EngineConfig config = m_client->model()->engine;
  config.prefill_chunk = {m_alone->value(), m_contended->value()};
  config.max_itl_ms = m_pause->value();
  config.max_num_batched_tokens = m_budget->value();
  config.max_num_seqs = m_seqs->value();
  config.policy = static_cast<SchedulingPolicy>(m_policy->currentIndex());
  config.victim = static_cast<VictimChoice>(m_victim->currentIndex());
  config.preemption_mode = static_cast<PreemptionMode>(m_mode->currentIndex());
  return config;
}

void SchedulingSettings::showConfig() {
  const auto model = m_client->model();
  EngineConfig config;
  if (model) {
    config = model->engine;
  } else if (m_settings != nullptr) {
    apply_scheduling(m_settings->load, config);
  }
  const auto set = [](QSpinBox* field, int value) {
    const QSignalBlocker quiet(field);
    field->setValue(value);
  };
  const auto pick = [](QComboBox* field, auto value) {
    const QSignalBlocker quiet(field);
    field->setCurrentIndex(static_cast<int>(value));
  };
  set(m_alone, config.prefill_chunk.alone);
  set(m_contended, config.prefill_chunk.contended);
  set(m_pause, static_cast<int>(config.max_itl_ms + 0.5));
  set(m_budget, config.max_num_batched_tokens);
  set(m_seqs, config.max_num_seqs);
  pick(m_policy, config.policy);
  pick(m_victim, config.victim);
  pick(m_mode, config.preemption_mode);
  m_soon.stop();
  setEnabled(model != nullptr);
  const bool noHost =
      config.preemption_mode != PreemptionMode::kRecompute && config.num_swap_blocks == 0;
  m_state->setText(!model   ? tr("No model is loaded.")
                   : noHost ? tr("There is no host memory set aside, so everything is computed "
                                 "again. Give swap blocks under “Need a reload”.")
                            : tr("Changes take effect with the next step."));
}

void SchedulingSettings::apply() {
  const auto model = m_client->model();
  if (!model) return;
  EngineConfig config = chosenConfig();
  m_note.clear();
  if (config.prefill_chunk != model->engine.prefill_chunk)
    m_note = QString::fromStdString(make_room_for_chunk(config));
  if (config == model->engine) return;
  m_asked = true;
  m_client->reconfigure(config);
}

void SchedulingSettings::finishApply(const QString& error) {
  if (!std::exchange(m_asked, false)) return;
  const auto model = m_client->model();
  if (!model) return;
  // What was typed meanwhile is sent next and must not be put back.
  if (!m_soon.isActive()) showConfig();
  if (!error.isEmpty()) {
    m_state->setText(error);
    return;
  }
  if (m_settings != nullptr) {
    keep_scheduling(model->engine, m_settings->load);
    (void)m_settings->save();  // the change itself does not depend on it
  }
  const bool nowhere = model->engine.preemption_mode != PreemptionMode::kRecompute &&
                       model->engine.num_swap_blocks == 0;
  if (nowhere) {
    m_state->setText(tr("There is no host memory to swap to yet: reload the model to get it."));
  } else if (!m_note.isEmpty()) {
    m_state->setText(m_note);
  }
}

}  // namespace quire
