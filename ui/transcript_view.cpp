#include "ui/transcript_view.h"

#include <QResizeEvent>
#include <QScrollBar>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include "ui/icons.h"
#include "ui/message_widget.h"

namespace quire {
namespace {

constexpr int kBatch = 30;           // turns given widgets at a time
constexpr int kStickThreshold = 24;  // pixels from the bottom that still count as there
constexpr int kColumnWidth = 820;
constexpr int kMargin = 20;

}  // namespace

TranscriptView::TranscriptView(QWidget* parent)
    : QScrollArea(parent),
      m_content(new QWidget),
      m_column(new QVBoxLayout(m_content)),
      m_jump(new QToolButton(this)) {
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setAccessibleName(tr("Conversation"));
  m_content->setBackgroundRole(QPalette::Base);
  m_content->setAutoFillBackground(true);
  m_column->setSpacing(18);
  m_column->addStretch(1);
  setWidget(m_content);

  m_jump->setIcon(icon(QStringLiteral("down")));
  m_jump->setText(tr("Latest"));
  m_jump->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  m_jump->setToolTip(tr("Jump to the latest text"));
  m_jump->setAccessibleName(tr("Jump to the latest text"));
  m_jump->hide();
  connect(m_jump, &QToolButton::clicked, this, &TranscriptView::scrollToBottom);
  connect(verticalScrollBar(), &QScrollBar::rangeChanged, this, [this] {
    if (m_stick) scrollToBottom();
    placeJumpButton();
  });
}

void TranscriptView::setSession(ChatSession* session) {
  if (m_session != nullptr) m_session->disconnect(this);
  m_session = session;
  if (session != nullptr) {
    connect(session, &ChatSession::reset, this, &TranscriptView::rebuild);
    connect(session, &ChatSession::messageAdded, this, &TranscriptView::onAdded);
    connect(session, &ChatSession::messagesRemoved, this, &TranscriptView::onRemoved);
    connect(session, &ChatSession::answeringChanged, this, &TranscriptView::onAnswering);
    connect(session, &ChatSession::textAppended, this, [this](int index, const QString& text) {
      MessageWidget* widget = widgetAt(index);
      if (widget == nullptr) return;
      widget->append(text);
      widget->setMessage(m_session->messages()[index]);
    });
    connect(session, &ChatSession::messageChanged, this, [this](int index) {
      if (auto* widget = widgetAt(index)) widget->setMessage(m_session->messages()[index]);
    });
    connect(session, &ChatSession::statusChanged, this, [this](const QString& status) {
      if (!m_widgets.empty() && m_widgets.back()->role() == Role::Assistant) {
        m_widgets.back()->setStatus(status);
      }
    });
  }
  rebuild();
}

void TranscriptView::rebuild() {
  for (MessageWidget* widget : m_widgets) delete widget;
  m_widgets.clear();
  m_stick = true;
  const int count = m_session ? static_cast<int>(m_session->messages().size()) : 0;
  m_first = std::max(0, count - kBatch);
  for (int i = m_first; i < count; ++i) {
    m_widgets.push_back(makeWidget(i));
    m_column->insertWidget(m_column->count() - 1, m_widgets.back());
  }
  if (m_session && m_session->answering()) {
    onAnswering(true);
    m_widgets.back()->setStatus(m_session->status());
  }
  scrollToBottom();
}

MessageWidget* TranscriptView::makeWidget(int index) {
  auto* widget = new MessageWidget(m_session->messages()[index], m_content);
  // The index of a widget changes when earlier turns are added before it, never its turn.
  const QString id = m_session->messages()[index].id;
  const auto indexOf = [this, id] {
    const auto& messages = m_session->messages();
    for (int i = 0; i < messages.size(); ++i) {
      if (messages[i].id == id) return i;
    }
    return -1;
  };
  connect(widget, &MessageWidget::editWanted, this,
          [this, indexOf] { emit editWanted(indexOf()); });
  connect(widget, &MessageWidget::regenerateWanted, this,
          [this, indexOf] { m_session->regenerate(indexOf()); });
  return widget;
}

MessageWidget* TranscriptView::widgetAt(int index) const {
  const int at = index - m_first;
  return at >= 0 && at < static_cast<int>(m_widgets.size()) ? m_widgets[at] : nullptr;
}

void TranscriptView::onAdded(int index) {
  m_stick = true;
  m_widgets.push_back(makeWidget(index));
  m_column->insertWidget(m_column->count() - 1, m_widgets.back());
  m_widgets.back()->show();
}

void TranscriptView::onRemoved(int from) {
  while (!m_widgets.empty() && m_first + static_cast<int>(m_widgets.size()) > from) {
    m_widgets.back()->hide();
    m_widgets.back()->deleteLater();  // it may be the sender
    m_widgets.pop_back();
  }
  m_first = std::min(m_first, from);
}

void TranscriptView::onAnswering(bool answering) {
  for (MessageWidget* widget : m_widgets) widget->setActionsEnabled(!answering);
}

void TranscriptView::addEarlier() {
  if (m_first == 0 || m_session == nullptr) return;
  QScrollBar* bar = verticalScrollBar();
  const int fromBottom = bar->maximum() - bar->value();
  m_adjusting = true;
  const int first = std::max(0, m_first - kBatch);
  for (int i = m_first - 1; i >= first; --i) {
    m_widgets.insert(m_widgets.begin(), makeWidget(i));
    m_column->insertWidget(0, m_widgets.front());
    m_widgets.front()->show();
  }
  m_first = first;
  m_content->layout()->activate();
  m_content->adjustSize();
  bar->setValue(bar->maximum() - fromBottom);
  m_adjusting = false;
}

bool TranscriptView::atBottom() const {
  return verticalScrollBar()->maximum() - verticalScrollBar()->value() <= kStickThreshold;
}

void TranscriptView::scrollToBottom() {
  m_stick = true;
  m_adjusting = true;
  verticalScrollBar()->setValue(verticalScrollBar()->maximum());
  m_adjusting = false;
  placeJumpButton();
}

void TranscriptView::scrollContentsBy(int dx, int dy) {
  QScrollArea::scrollContentsBy(dx, dy);
  if (m_adjusting) return;
  m_stick = atBottom();
  placeJumpButton();
  if (verticalScrollBar()->value() < height() / 2 && m_first > 0) {
    QTimer::singleShot(0, this, &TranscriptView::addEarlier);
  }
}

void TranscriptView::resizeEvent(QResizeEvent* event) {
  QScrollArea::resizeEvent(event);
  updateMargins();
  placeJumpButton();
}

void TranscriptView::updateMargins() {
  const int side = std::max(kMargin, (viewport()->width() - kColumnWidth) / 2);
  m_column->setContentsMargins(side, kMargin, side, kMargin);
}

void TranscriptView::placeJumpButton() {
  const bool show = !m_stick && !atBottom();
  m_jump->setVisible(show);
  if (!show) return;
  m_jump->adjustSize();
  m_jump->move((viewport()->width() - m_jump->width()) / 2,
               viewport()->height() - m_jump->height() - 12);
  m_jump->raise();
}

}  // namespace quire
