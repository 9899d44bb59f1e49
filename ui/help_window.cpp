#include "ui/help_window.h"

#include <QFile>
#include <QHBoxLayout>
#include <QListWidget>
#include <QScrollArea>
#include <QScrollBar>

#include "kernels/check.h"
#include "ui/markdown_view.h"

namespace quire {
namespace {

constexpr int kMargin = 20;

struct Page {
  const char* file;
  const char* title;
};
constexpr Page kPages[] = {
    {"scheduling", QT_TRANSLATE_NOOP("quire::HelpWindow", "Settings of scheduling")},
    {"recordings", QT_TRANSLATE_NOOP("quire::HelpWindow", "Recordings and what-if")},
    {"measured", QT_TRANSLATE_NOOP("quire::HelpWindow", "What was measured")},
};

QString textOf(const Page& page) {
  QFile file(QStringLiteral(":/help/%1.md").arg(QLatin1String(page.file)));
  const bool opened = file.open(QIODevice::ReadOnly);
  QUIRE_CHECK(opened);
  return QString::fromUtf8(file.readAll());
}

}  // namespace

HelpWindow::HelpWindow(QWidget* parent)
    : QDialog(parent), m_pages(new QListWidget), m_area(new QScrollArea) {
  setWindowTitle(tr("Quire Help"));
  for (const Page& page : kPages) m_pages->addItem(tr(page.title));
  m_pages->setFixedWidth(m_pages->sizeHintForColumn(0) + 2 * kMargin);
  m_pages->setSpacing(3);
  m_pages->setAccessibleName(tr("Help pages"));
  m_area->setWidgetResizable(true);
  m_area->setFrameShape(QFrame::NoFrame);
  m_area->setAccessibleName(tr("Help page"));
  auto* layout = new QHBoxLayout(this);
  layout->addWidget(m_pages);
  layout->addWidget(m_area, 1);
  connect(m_pages, &QListWidget::currentRowChanged, this, &HelpWindow::showPage);
  m_pages->setCurrentRow(0);
  resize(1140, 700);
}

void HelpWindow::showPage(int row) {
  if (row < 0) return;
  auto* view = new MarkdownView;
  view->setContentsMargins(kMargin, 0, kMargin, kMargin);
  view->setText(textOf(kPages[row]));
  view->finish();
  m_area->setWidget(view);  // deletes the page before
  m_area->verticalScrollBar()->setValue(0);
}

}  // namespace quire
