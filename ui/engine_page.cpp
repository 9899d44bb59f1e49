#include "ui/engine_page.h"

#include <QComboBox>
#include <QFormLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QSpinBox>
#include <QSplitter>
#include <QTabWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "engine/load_config.h"
#include "engine/memory.h"
#include "ui/engine_live.h"
#include "ui/engine_panel.h"
#include "ui/engine_plots.h"
#include "ui/scheduling_settings.h"

namespace quire {
namespace {

constexpr int kNoPrefixIndex = 2;  // behind the two kinds

}  // namespace

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
  m_poolText = new QLabel(side);
  m_poolText->setWordWrap(true);
  m_poolText->setForegroundRole(QPalette::PlaceholderText);
  sideLayout->addWidget(m_poolText);
  splitter->addWidget(side);
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 2);
  layout->addWidget(splitter);

  connect(m_live, &EngineLive::updated, this, [this] {
    if (isVisible()) m_plots->refresh();
  });
  connect(m_client, &EngineClient::pausedChanged, this, &EnginePage::updateButtons);
  connect(m_client, &EngineClient::statusChanged, this, &EnginePage::updateButtons);
  connect(m_client, &EngineClient::configChanged, this, &EnginePage::updateButtons);
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
  auto* tabs = new QTabWidget(this);
  tabs->setDocumentMode(true);
  const auto add = [tabs](QWidget* page, const QString& title) {
    // A low window scrolls the settings rather than squeezing the plots away.
    auto* scroll = new QScrollArea(tabs);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setWidgetResizable(true);
    scroll->setWidget(page);
    tabs->addTab(scroll, title);
  };
  add(new SchedulingSettings(m_client, m_settings, tabs), tr("Change at once"));
  add(buildReloadSettings(), tr("Need a reload"));
  return tabs;
}

QWidget* EnginePage::buildReloadSettings() {
  auto* box = new QWidget(this);
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
  m_swapBlocks = spin(0, 1 << 24, 64, tr("automatic"),
                      tr("Blocks of host memory for requests that gave theirs back. Automatic: as "
                         "many as the KV pool has, within a quarter of the free memory, once they "
                         "are not computed again."));
  m_prefixIndex = new QComboBox(box);
  m_prefixIndex->addItems({tr("hash chain"), tr("radix tree"), tr("off")});
  m_prefixIndex->setToolTip(
      tr("How prompts with the same beginning find cached blocks: whole blocks by their hash, or a "
         "tree that also copies a part of a block"));
  connect(m_prefixIndex, &QComboBox::currentIndexChanged, this, &EnginePage::updateButtons);
  m_kvType = new QComboBox(box);
  for (const std::string& type : kv_cache_dtypes())
    m_kvType->addItem(QString::fromStdString(type).toUpper(), QString::fromStdString(type));
  m_kvType->setToolTip(
      tr("How keys and values are kept. F32 is exact and takes twice the memory of BF16 and F16; "
         "INT8 takes little more than half of theirs."));
  connect(m_kvType, &QComboBox::currentIndexChanged, this, &EnginePage::updateButtons);
  m_threads = spin(0, 1024, 1, tr("automatic"),
                   tr("Threads that compute. Automatic: one per physical core."));
  const auto choice = [&](const std::vector<std::pair<QString, const char*>>& words,
                          const QString& help) {
    auto* field = new QComboBox(box);
    for (const auto& [shown, value] : words) field->addItem(shown, QString::fromLatin1(value));
    field->setToolTip(help);
    connect(field, &QComboBox::currentIndexChanged, this, &EnginePage::updateButtons);
    return field;
  };
  m_pin = choice({{tr("left to the system"), "none"}, {tr("one core each"), "cores"}},
                 tr("Whether each thread keeps to a physical core of its own"));
  m_priority = choice({{tr("low"), "low"}, {tr("normal"), "normal"}, {tr("high"), "high"}},
                      tr("Low gives way to other programs. High needs the right to raise it."));
  form->addRow(tr("KV &blocks"), m_blocks);
  form->addRow(tr("&Swap blocks"), m_swapBlocks);
  form->addRow(tr("Prefi&x index"), m_prefixIndex);
  form->addRow(tr("Ke&ys and values"), m_kvType);
  form->addRow(tr("&Threads"), m_threads);
  form->addRow(tr("Threads' &place"), m_pin);
  form->addRow(tr("Threads' p&riority"), m_priority);
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
  // What was changed while the model ran stays as it is.
  if (const auto model = m_client->model()) keep_scheduling(model->engine, options);
  options.num_blocks = m_blocks->value();
  options.num_swap_blocks = m_swapBlocks->value();
  options.num_threads = m_threads->value();
  options.cpu_pin = m_pin->currentData().toString().toStdString();
  options.cpu_priority = m_priority->currentData().toString().toStdString();
  options.kv_cache_dtype = m_kvType->currentData().toString().toStdString();
  options.enable_prefix_caching = m_prefixIndex->currentIndex() != kNoPrefixIndex;
  if (options.enable_prefix_caching)
    options.prefix_index = static_cast<PrefixIndexKind>(m_prefixIndex->currentIndex());
  return options;
}

void EnginePage::showOptions() {
  const LoadOptions options = m_client->model() && m_client->host() ? m_client->host()->options()
                              : m_settings != nullptr               ? m_settings->load
                                                                    : LoadOptions();
  m_blocks->setValue(options.num_blocks);
  m_swapBlocks->setValue(options.num_swap_blocks);
  m_threads->setValue(options.num_threads);
  const auto choose = [](QComboBox* box, const std::string& value) {
    box->setCurrentIndex(std::max(0, box->findData(QString::fromStdString(value))));
  };
  choose(m_pin, options.cpu_pin);
  choose(m_priority, options.cpu_priority);
  choose(m_kvType, options.kv_cache_dtype);
  m_prefixIndex->setCurrentIndex(
      options.enable_prefix_caching ? static_cast<int>(options.prefix_index) : kNoPrefixIndex);
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
                       now.num_threads != chosen.num_threads || now.cpu_pin != chosen.cpu_pin ||
                       now.cpu_priority != chosen.cpu_priority ||
                       now.kv_cache_dtype != chosen.kv_cache_dtype ||
                       now.num_swap_blocks != chosen.num_swap_blocks ||
                       now.enable_prefix_caching != chosen.enable_prefix_caching ||
                       now.prefix_index != chosen.prefix_index ||
                       (ready && chosen.preemption_mode != PreemptionMode::kRecompute &&
                        model->engine.num_swap_blocks == 0);
  m_reload->setEnabled(ready && changed);
  updatePoolText();
}

void EnginePage::updatePoolText() {
  const auto model = m_client->model();
  if (!model) {
    m_poolText->setText(tr("No model is loaded."));
    m_poolText->setToolTip({});
    return;
  }
  const auto size = [](std::size_t bytes) {
    return QString::fromStdString(readable_bytes(static_cast<double>(bytes)));
  };
  const auto& memory = model->memory;
  m_poolText->setText(tr("%1 KV blocks of %2 tokens, context %3. %4 of memory in use, %5 expected.")
                          .arg(QLocale().toString(model->engine.num_blocks))
                          .arg(model->engine.block_size)
                          .arg(QLocale().toString(model->engine.effective_context()),
                               size(memory.resident), size(memory.estimate())));
  m_poolText->setToolTip(tr("Expected: KV pool %1, weights %2, buffers %3, the program %4")
                             .arg(size(memory.kv_pool), size(memory.weights), size(memory.buffers),
                                  size(memory.program)));
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
