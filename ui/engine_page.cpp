#include "ui/engine_page.h"

#include <QFormLayout>
#include <QGroupBox>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QSpinBox>
#include <QSplitter>
#include <QVBoxLayout>

#include "engine/memory.h"
#include "ui/engine_live.h"
#include "ui/engine_panel.h"
#include "ui/engine_plots.h"

namespace quire {

EnginePage::EnginePage(EngineClient* client, Settings* settings, QWidget* parent)
    : QWidget(parent), m_client(client), m_settings(settings), m_live(EngineLive::of(client)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  auto* splitter = new QSplitter(Qt::Horizontal, this);
  splitter->setChildrenCollapsible(false);
  splitter->addWidget(new EnginePanel(client, splitter));

  auto* side = new QWidget(splitter);
  auto* sideLayout = new QVBoxLayout(side);
  sideLayout->setContentsMargins(10, 8, 10, 8);
  sideLayout->setSpacing(10);
  sideLayout->addWidget(buildControls());
  m_plots = new EnginePlots(m_live->history(), side);
  sideLayout->addWidget(m_plots, 1);
  sideLayout->addWidget(buildSettings());
  splitter->addWidget(side);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 2);
  layout->addWidget(splitter);

  connect(m_live, &EngineLive::updated, this, [this] {
    if (isVisible()) m_plots->refresh();
  });
  connect(m_client, &EngineClient::pausedChanged, this, &EnginePage::updateButtons);
  connect(m_client, &EngineClient::statusChanged, this, &EnginePage::updateButtons);
  connect(m_client, &EngineClient::modelChanged, this, [this] {
    showOptions();
    updateButtons();
  });
  showOptions();
  updateButtons();
}

QWidget* EnginePage::buildControls() {
  auto* box = new QWidget(this);
  auto* row = new QHBoxLayout(box);
  row->setContentsMargins(0, 0, 0, 0);
  m_pause = new QPushButton(box);
  m_step = new QPushButton(tr("Step"), box);
  m_step->setToolTip(tr("Lets the held engine run one step"));
  m_resetCache = new QPushButton(tr("Clear prefix cache"), box);
  m_resetCache->setToolTip(tr("Forgets every cached block; running requests go on"));
  row->addWidget(m_pause);
  row->addWidget(m_step);
  row->addWidget(m_resetCache);
  row->addStretch(1);
  connect(m_pause, &QPushButton::clicked, this,
          [this] { m_client->paused() ? m_client->resume() : m_client->pause(); });
  connect(m_step, &QPushButton::clicked, this, [this] { m_client->step(1); });
  connect(m_resetCache, &QPushButton::clicked, this, [this] {
    m_client->resetPrefixCache();
    m_client->requestSnapshot();
  });
  return box;
}

QWidget* EnginePage::buildSettings() {
  auto* box = new QGroupBox(tr("Settings that need a reload"), this);
  auto* form = new QFormLayout(box);
  const auto spin = [&](int low, int high, int stepBy, const QString& automatic,
                        const QString& help) {
    auto* field = new QSpinBox(box);
    field->setRange(low, high);
    field->setSingleStep(stepBy);
    field->setGroupSeparatorShown(true);
    if (!automatic.isEmpty()) field->setSpecialValueText(automatic);
    field->setToolTip(help);
    connect(field, &QSpinBox::valueChanged, this, &EnginePage::updateButtons);
    return field;
  };
  m_blocks = spin(0, 1 << 24, 64, tr("automatic"),
                  tr("Blocks of the KV pool. Automatic: a quarter of the memory free at load, at "
                     "most eight contexts."));
  m_budget = spin(1, 1 << 20, 256, {}, tr("Most tokens one step computes, all requests together"));
  m_seqs = spin(1, 65536, 1, {}, tr("Most requests running at once"));
  m_threads = spin(0, 1024, 1, tr("automatic"),
                   tr("Threads that compute. Automatic: one per physical core."));
  form->addRow(tr("KV &blocks"), m_blocks);
  form->addRow(tr("Token b&udget per step"), m_budget);
  form->addRow(tr("Running re&quests"), m_seqs);
  form->addRow(tr("&Threads"), m_threads);
  m_poolText = new QLabel(box);
  m_poolText->setWordWrap(true);
  m_poolText->setForegroundRole(QPalette::PlaceholderText);
  form->addRow(m_poolText);
  m_reload = new QPushButton(tr("Reload model"), box);
  m_reload->setToolTip(
      tr("Lets running answers finish, then loads the model again with these settings"));
  connect(m_reload, &QPushButton::clicked, this, &EnginePage::reload);
  form->addRow(m_reload);
  return box;
}

void EnginePage::showEvent(QShowEvent* event) {
  m_watch = m_live->watch();
  m_plots->refresh();
  QWidget::showEvent(event);
}

void EnginePage::hideEvent(QHideEvent* event) {
  m_watch.reset();
  QWidget::hideEvent(event);
}

LoadOptions EnginePage::chosenOptions() const {
  LoadOptions options = m_client->host() ? m_client->host()->options() : LoadOptions();
  options.num_blocks = m_blocks->value();
  options.max_num_batched_tokens = m_budget->value();
  options.max_num_seqs = m_seqs->value();
  options.num_threads = m_threads->value();
  return options;
}

void EnginePage::showOptions() {
  const LoadOptions options = m_client->model() && m_client->host() ? m_client->host()->options()
                              : m_settings != nullptr               ? m_settings->load
                                                                    : LoadOptions();
  m_blocks->setValue(options.num_blocks);
  m_budget->setValue(options.max_num_batched_tokens);
  m_seqs->setValue(options.max_num_seqs);
  m_threads->setValue(options.num_threads);
}

void EnginePage::updateButtons() {
  const auto model = m_client->model();
  const bool ready = model != nullptr;
  m_pause->setText(m_client->paused() ? tr("Let the engine run") : tr("Hold the engine"));
  m_pause->setToolTip(
      m_client->paused() ? tr("Goes on with every waiting and running request")
                         : tr("Stops between two steps, for the window and for API clients alike"));
  m_pause->setEnabled(ready);
  m_step->setEnabled(ready && m_client->paused());
  m_resetCache->setEnabled(ready);
  const LoadOptions now = m_client->host() ? m_client->host()->options() : LoadOptions();
  const LoadOptions chosen = chosenOptions();
  const bool changed = now.num_blocks != chosen.num_blocks ||
                       now.num_threads != chosen.num_threads ||
                       now.max_num_batched_tokens != chosen.max_num_batched_tokens ||
                       now.max_num_seqs != chosen.max_num_seqs;
  m_reload->setEnabled(ready && changed);
  updatePoolText();
}

void EnginePage::updatePoolText() {
  const auto model = m_client->model();
  if (!model) {
    m_poolText->setText(tr("No model is loaded."));
    return;
  }
  m_poolText->setText(
      tr("Now: %1 blocks of %2 tokens (%3), context %4 tokens")
          .arg(QLocale().toString(model->engine.num_blocks))
          .arg(model->engine.block_size)
          .arg(QString::fromStdString(readable_bytes(static_cast<double>(model->kvBytes))),
               QLocale().toString(model->engine.effective_context())));
}

void EnginePage::reload() {
  const LoadOptions options = chosenOptions();
  if (m_settings != nullptr) {
    m_settings->load = options;
    (void)m_settings->save();  // the reload itself does not depend on it
  }
  m_reload->setEnabled(false);
  m_client->reload(options);
}

}  // namespace quire
