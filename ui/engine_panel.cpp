#include "ui/engine_panel.h"

#include <QGridLayout>
#include <QLabel>
#include <QPainter>
#include <QSplitter>
#include <QVBoxLayout>

#include "ui/block_map.h"
#include "ui/engine_live.h"
#include "ui/request_color.h"
#include "ui/request_lanes.h"
#include "ui/step_bars.h"

namespace quire {
namespace {

// A small sample of how the block map draws one state.
class LegendSwatch : public QWidget {
 public:
  enum Kind { kUsed, kShared, kCached, kFree };
  LegendSwatch(Kind kind, QWidget* parent) : QWidget(parent), m_kind(kind) { setFixedSize(12, 12); }

 protected:
  void paintEvent(QPaintEvent*) override {
    const Theme& theme = Theme::current();
    const QColor color = requestColor(RequestId{1});
    QPainter painter(this);
    switch (m_kind) {
      case kUsed:
        painter.fillRect(rect(), color);
        break;
      case kShared:
        painter.fillRect(rect(), color);
        painter.fillRect(QRect(4, 4, 4, 4), theme.surface);
        break;
      case kCached:
        painter.fillRect(rect(), mixed(color, theme.surface, 0.35));
        painter.fillRect(QRect(0, 10, 12, 2), color);
        break;
      case kFree:
        painter.fillRect(rect(), mixed(theme.border, theme.surface, 0.55));
        break;
    }
  }

 private:
  Kind m_kind;
};

QWidget* titled(const QString& title, const QString& help, QWidget* content, QWidget* parent) {
  auto* box = new QWidget(parent);
  auto* layout = new QVBoxLayout(box);
  layout->setContentsMargins(0, 4, 0, 0);
  layout->setSpacing(4);
  auto* label = new QLabel(title, box);
  label->setToolTip(help);
  QFont bold = label->font();
  bold.setBold(true);
  label->setFont(bold);
  layout->addWidget(label);
  layout->addWidget(content, 1);
  return box;
}

QString percent(double share) {
  return QLocale().toString(100 * share, 'f', share > 0 && share < 0.1 ? 1 : 0) +
         QStringLiteral(" %");
}

}  // namespace

EnginePanel::EnginePanel(EngineClient* client, QWidget* parent)
    : QWidget(parent), m_client(client), m_live(EngineLive::of(client)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(10, 8, 10, 8);
  layout->setSpacing(6);
  layout->addWidget(buildFigures());
  m_state = new QLabel(this);
  m_state->setWordWrap(true);
  m_state->hide();
  layout->addWidget(m_state);

  m_blocks = new BlockMap(m_live->history(), this);
  m_steps = new StepBars(m_live->history(), this);
  m_lanes = new RequestLanes(m_live->history(), this);
  auto* map = new QWidget(this);
  auto* mapLayout = new QVBoxLayout(map);
  mapLayout->setContentsMargins(0, 0, 0, 0);
  mapLayout->setSpacing(4);
  mapLayout->addWidget(m_blocks, 1);
  mapLayout->addWidget(buildLegend());

  auto* splitter = new QSplitter(Qt::Vertical, this);
  splitter->setChildrenCollapsible(false);
  splitter->addWidget(titled(
      tr("KV blocks"), tr("The pool that keeps keys and values, one cell per block."), map, this));
  splitter->addWidget(titled(
      tr("Steps"),
      tr("Tokens each step computed: decoding in grey, prefill in the request's colour, tokens "
         "found in the prefix cache hatched. A dotted line stands where the limit on prefill "
         "changed."),
      m_steps, this));
  splitter->addWidget(titled(tr("Requests"),
                             tr("Each request over the last seconds. Ctrl + wheel zooms."), m_lanes,
                             this));
  splitter->setStretchFactor(0, 3);
  splitter->setStretchFactor(1, 2);
  splitter->setStretchFactor(2, 2);
  layout->addWidget(splitter, 1);

  connect(m_live, &EngineLive::updated, this, &EnginePanel::refresh);
  connect(m_client, &EngineClient::pausedChanged, this, &EnginePanel::refreshState);
  connect(m_client, &EngineClient::modelChanged, this, &EnginePanel::refreshState);
  connect(m_blocks, &BlockMap::hovered, m_live, &EngineLive::highlighted);
  connect(m_lanes, &RequestLanes::hovered, m_live, &EngineLive::highlighted);
  connect(m_live, &EngineLive::highlighted, this, [this](qint64 request) {
    m_blocks->setHighlighted(RequestId{request});
    m_steps->setHighlighted(RequestId{request});
    m_lanes->setHighlighted(RequestId{request});
  });
  refreshState();
}

QWidget* EnginePanel::buildFigures() {
  struct Item {
    const char* name;
    const char* help;
  };
  static const Item items[kNumFigures] = {
      {QT_TR_NOOP("running"), QT_TR_NOOP("Requests that hold blocks and take part in steps")},
      {QT_TR_NOOP("waiting"), QT_TR_NOOP("Requests in the queue")},
      {QT_TR_NOOP("pool in use"), QT_TR_NOOP("Blocks some request holds, of all blocks")},
      {QT_TR_NOOP("cached"),
       QT_TR_NOOP(
           "Free blocks whose contents can still be adopted by a prompt with the same beginning")},
      {QT_TR_NOOP("prefix hits"),
       QT_TR_NOOP("Share of prompt tokens found in the cache since the model was loaded")},
      {QT_TR_NOOP("preemptions"),
       QT_TR_NOOP("Times a running request gave its blocks back because the pool was full")},
      {QT_TR_NOOP("decode tok/s"),
       QT_TR_NOOP("Tokens generated per second, all requests together")},
      {QT_TR_NOOP("prefill tok/s"), QT_TR_NOOP("Prompt tokens computed per second")},
  };
  auto* box = new QWidget(this);
  auto* grid = new QGridLayout(box);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(10);
  grid->setVerticalSpacing(6);
  for (int i = 0; i < kNumFigures; ++i) {
    auto* value = new QLabel(QStringLiteral("–"), box);
    QFont big = value->font();
    big.setPointSizeF(big.pointSizeF() * 1.25);
    big.setBold(true);
    value->setFont(big);
    auto* name = new QLabel(tr(items[i].name), box);
    name->setForegroundRole(QPalette::PlaceholderText);
    value->setToolTip(tr(items[i].help));
    name->setToolTip(tr(items[i].help));
    value->setAccessibleName(tr(items[i].name));
    auto* cell = new QVBoxLayout;
    cell->setSpacing(0);
    cell->addWidget(value);
    cell->addWidget(name);
    grid->addLayout(cell, i / 4, i % 4);
    grid->setColumnStretch(i % 4, 1);
    m_figures[i] = value;
  }
  return box;
}

QWidget* EnginePanel::buildLegend() {
  auto* box = new QWidget(this);
  auto* row = new QHBoxLayout(box);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(5);
  const std::pair<LegendSwatch::Kind, QString> entries[] = {
      {LegendSwatch::kUsed, tr("in use")},
      {LegendSwatch::kShared, tr("shared")},
      {LegendSwatch::kCached, tr("free, cached")},
      {LegendSwatch::kFree, tr("free")}};
  for (const auto& [kind, name] : entries) {
    row->addWidget(new LegendSwatch(kind, box));
    auto* label = new QLabel(name, box);
    label->setForegroundRole(QPalette::PlaceholderText);
    row->addWidget(label);
    row->addSpacing(6);
  }
  row->addStretch(1);
  return box;
}

void EnginePanel::showEvent(QShowEvent* event) {
  m_watch = m_live->watch();
  refresh();
  QWidget::showEvent(event);
}

void EnginePanel::hideEvent(QHideEvent* event) {
  m_watch.reset();
  QWidget::hideEvent(event);
}

void EnginePanel::refresh() {
  if (!isVisible()) return;
  refreshFigures();
  m_blocks->refresh();
  m_steps->refresh();
  m_lanes->refresh();
}

void EnginePanel::refreshFigures() {
  const EngineHistory& history = *m_live->history();
  const auto set = [&](Figure figure, const QString& text) { m_figures[figure]->setText(text); };
  const QLocale locale;
  set(kRunning, locale.toString(history.running()));
  set(kWaiting, locale.toString(history.waiting()));
  const auto blocks = static_cast<double>(history.blocks().size());
  set(kPool, blocks > 0 ? percent((blocks - history.freeBlocks()) / blocks) : QStringLiteral("–"));
  set(kCached, blocks > 0 ? percent(history.cachedBlocks() / blocks) : QStringLiteral("–"));
  const EngineCounters& totals = history.totals();
  set(kHits, totals.prefix_cache_queries > 0
                 ? percent(static_cast<double>(totals.prefix_cache_hits) /
                           static_cast<double>(totals.prefix_cache_queries))
                 : QStringLiteral("–"));
  set(kPreemptions, locale.toString(static_cast<qlonglong>(totals.preemptions)));
  m_figures[kPreemptions]->setToolTip(
      tr("Times a running request gave its blocks back: %1 to compute again, %2 kept in host "
         "memory; %3 of them for a request of higher priority")
          .arg(
              locale.toString(static_cast<qlonglong>(totals.preemptions - totals.swap_preemptions)))
          .arg(locale.toString(static_cast<qlonglong>(totals.swap_preemptions)))
          .arg(locale.toString(static_cast<qlonglong>(totals.displacements))));
  const bool active = history.running() > 0 && !history.points().empty();
  set(kDecode,
      active ? locale.toString(history.points().back().decodeRate, 'f', 0) : QStringLiteral("–"));
  set(kPrefill,
      active ? locale.toString(history.points().back().prefillRate, 'f', 0) : QStringLiteral("–"));
}

void EnginePanel::refreshState() {
  QString text;
  if (!m_client->model()) {
    text = tr("No model is loaded; the engine runs once one is.");
  } else if (m_client->paused()) {
    text = tr("The engine is held between two steps. Requests wait until it goes on.");
  }
  m_state->setText(text);
  m_state->setVisible(!text.isEmpty());
}

}  // namespace quire
