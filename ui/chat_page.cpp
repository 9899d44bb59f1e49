#include "ui/chat_page.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPushButton>
#include <QResizeEvent>
#include <QSplitter>
#include <QStackedWidget>
#include <QTimer>
#include <QVBoxLayout>

#include "ui/chat_list.h"
#include "ui/chat_settings_dialog.h"
#include "ui/composer.h"
#include "ui/icons.h"
#include "ui/transcript_view.h"

namespace quire {
namespace {

constexpr int kListWidth = 230;
constexpr int kListMinPageWidth = 640;  // narrower pages hide the list unless it is asked for
constexpr int kMeasureDelayMs = 200;
constexpr int kUndoMs = 8000;

}  // namespace

ChatPage::ChatPage(EngineClient* client, ChatStore* store, QWidget* parent)
    : QWidget(parent),
      m_client(client),
      m_store(store),
      m_splitter(new QSplitter),
      m_list(new ChatList),
      m_middle(new QStackedWidget),
      m_transcript(new TranscriptView),
      m_bars(new MessageBarStack),
      m_composer(new Composer),
      m_measureTimer(new QTimer(this)) {
  auto* column = new QWidget;
  column->setBackgroundRole(QPalette::Base);
  column->setAutoFillBackground(true);
  auto* layout = new QVBoxLayout(column);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  m_middle->addWidget(buildEmptyState());
  m_middle->addWidget(m_transcript);
  layout->addWidget(m_middle, 1);
  layout->addWidget(m_bars);
  auto* bottom = new QHBoxLayout;
  bottom->setContentsMargins(16, 8, 16, 14);
  m_composer->setMaximumWidth(840);
  bottom->addWidget(m_composer, 1);
  layout->addLayout(bottom);

  m_splitter->addWidget(m_list);
  m_splitter->addWidget(column);
  m_splitter->setStretchFactor(1, 1);
  m_splitter->setChildrenCollapsible(false);
  m_splitter->setHandleWidth(1);
  m_list->setMinimumWidth(150);
  m_splitter->setSizes({kListWidth, 600});
  auto* outer = new QHBoxLayout(this);
  outer->setContentsMargins(0, 0, 0, 0);
  outer->addWidget(m_splitter);

  connect(m_list, &ChatList::newWanted, this, &ChatPage::newChat);
  connect(m_list, &ChatList::chosen, this, &ChatPage::openChat);
  connect(m_list, &ChatList::deleteWanted, this, &ChatPage::deleteChat);
  connect(m_list, &ChatList::searchWanted, m_store, &ChatStore::search);
  connect(m_list->model(), &ChatListModel::renamed, this,
          [this](const QString& id, const QString& title) {
            if (ChatSession* session = m_sessions.value(id)) {
              session->setTitle(title);
            } else {
              m_store->rename(id, title);
            }
          });
  connect(m_store, &ChatStore::listed, m_list->model(), &ChatListModel::setChats);
  connect(m_store, &ChatStore::found, m_list, &ChatList::setFound);
  connect(m_store, &ChatStore::chatLoaded, this, &ChatPage::onLoaded);
  connect(m_store, &ChatStore::notice, this, [this](const QString& sentence) {
    BarMessage message;
    message.kind = BarKind::Warning;
    message.text = sentence;
    emit notice(message);
  });
  connect(m_composer, &Composer::sendWanted, this, &ChatPage::send);
  connect(m_composer, &Composer::stopWanted, this, [this] { m_session->stop(); });
  connect(m_composer, &Composer::editLastWanted, this, &ChatPage::editLast);
  connect(m_composer, &Composer::editingCancelled, this, &ChatPage::endEdit);
  connect(m_composer, &Composer::settingsWanted, this, &ChatPage::showSettings);
  connect(m_composer, &Composer::textChanged, this, &ChatPage::measureSoon);
  connect(m_transcript, &TranscriptView::editWanted, this, &ChatPage::beginEdit);
  connect(m_client, &EngineClient::modelChanged, this, &ChatPage::updateState);
  connect(m_client, &EngineClient::statusChanged, this, &ChatPage::updateState);
  connect(m_client, &EngineClient::measured, this, &ChatPage::onMeasured);
  m_measureTimer->setSingleShot(true);
  m_measureTimer->setInterval(kMeasureDelayMs);
  connect(m_measureTimer, &QTimer::timeout, this, &ChatPage::measure);

  showSession(makeSession(ChatStore::newId()));
  m_store->requestList();
}

ChatPage::~ChatPage() {
  // Sessions outlive the members their signals would use.
  for (ChatSession* session : std::as_const(m_sessions)) session->disconnect(this);
  m_transcript->setSession(nullptr);
}

QWidget* ChatPage::buildEmptyState() {
  auto* page = new QWidget;
  auto* layout = new QVBoxLayout(page);
  layout->setContentsMargins(24, 24, 24, 24);
  layout->setSpacing(10);
  layout->addStretch(2);
  auto* picture = new QLabel;
  picture->setPixmap(applicationIcon().pixmap(QSize(64, 64), devicePixelRatioF()));
  picture->setAlignment(Qt::AlignCenter);
  layout->addWidget(picture);
  m_emptyTitle = new QLabel;
  QFont large = m_emptyTitle->font();
  large.setPointSizeF(large.pointSizeF() * 1.35);
  large.setWeight(QFont::DemiBold);
  m_emptyTitle->setFont(large);
  m_emptyText = new QLabel;
  m_emptyText->setForegroundRole(QPalette::PlaceholderText);
  for (QLabel* label : {m_emptyTitle, m_emptyText}) {
    label->setTextFormat(Qt::PlainText);
    label->setAlignment(Qt::AlignCenter);
    label->setWordWrap(true);
    layout->addWidget(label);
  }
  m_emptyButton = new QPushButton(tr("Choose a model"));
  connect(m_emptyButton, &QPushButton::clicked, this, &ChatPage::modelWanted);
  layout->addWidget(m_emptyButton, 0, Qt::AlignHCenter);
  layout->addStretch(3);
  return page;
}

ChatSession* ChatPage::makeSession(const QString& id) {
  auto* session = new ChatSession(m_client, m_store, id, this);
  m_sessions.insert(id, session);
  connect(session, &ChatSession::stored, this, [this, session] {
    m_list->model()->put({session->chatId(), session->title(), QDateTime::currentDateTime()});
    if (session == m_session) m_list->setCurrent(session->chatId());
  });
  connect(session, &ChatSession::messageAdded, this, [this, session] {
    if (session->isStored()) {
      m_list->model()->put({session->chatId(), session->title(), QDateTime::currentDateTime()});
    }
    if (session == m_session) updateState();
  });
  connect(session, &ChatSession::answeringChanged, this, [this, session](bool answering) {
    if (session == m_session) {
      updateState();
      measureSoon();
    } else if (!answering) {
      letGo(session);
    }
  });
  connect(session, &ChatSession::reset, this, [this, session] {
    if (session == m_session) updateState();
  });
  connect(session, &ChatSession::textAppended, this, [this, session](int index) {
    const MessageStats& stats = session->messages()[index].stats;
    const auto model = m_client->model();
    if (session != m_session || model == nullptr || stats.promptTokens <= 0) return;
    PromptSize size;
    size.tokens = stats.promptTokens + std::max(0, stats.outputTokens);
    size.contextTokens = model->engine.effective_context();
    m_composer->setSize(size);
  });
  connect(session, &ChatSession::tooLong, this, [this, session](int prompt, int context) {
    if (session == m_session) onTooLong(prompt, context);
  });
  connect(session, &ChatSession::replaced, this, [this, session] {
    BarMessage message;
    message.key = QStringLiteral("replaced");
    message.text = tr("The earlier turns were replaced.");
    message.timeoutMs = kUndoMs;
    message.actions = {{tr("Undo"), [this, session, id = session->chatId()] {
                          if (m_sessions.value(id) == session) session->undo();
                        }}};
    if (session == m_session) m_bars->show(message);
  });
  return session;
}

// Sessions that are not shown and not answering have nothing the store has not.
void ChatPage::letGo(ChatSession* session) {
  if (session == nullptr || session == m_session || session->answering()) return;
  m_sessions.remove(session->chatId());
  session->deleteLater();
}

void ChatPage::showSession(ChatSession* session) {
  ChatSession* before = std::exchange(m_session, session);
  endEdit();
  m_bars->remove(QStringLiteral("replaced"));
  m_bars->remove(QStringLiteral("too-long"));
  m_transcript->setSession(session);
  m_list->setCurrent(session->chatId());
  if (before != session) letGo(before);
  updateState();
  measureSoon();
}

void ChatPage::newChat() {
  if (m_session->messages().isEmpty() && !m_session->isStored()) {
    focusInput();
    return;
  }
  ChatSession* fresh = makeSession(ChatStore::newId());
  // A new chat begins with the settings of the one before it, but not its system prompt.
  ChatSettings settings;
  settings.sampling = m_session->conversation().settings.sampling;
  fresh->setSettings(settings);
  showSession(fresh);
  focusInput();
}

void ChatPage::openChat(const QString& id) {
  if (id == m_session->chatId()) return;
  if (ChatSession* live = m_sessions.value(id)) {
    showSession(live);
  } else {
    showSession(makeSession(id));
    m_store->requestChat(id);
  }
  if (width() < kListMinPageWidth) m_listForced = false;
  updateListVisibility();
  focusInput();
}

void ChatPage::onLoaded(const QString& id, const Conversation& conversation) {
  ChatSession* session = m_sessions.value(id);
  if (session == nullptr || session->isStored()) return;
  session->adopt(m_list->model()->title(id), conversation);
  if (session == m_session) measureSoon();
}

void ChatPage::deleteChat(const QString& id) {
  const ChatSummary chat{id, m_list->model()->title(id), QDateTime::currentDateTime()};
  if (ChatSession* session = m_sessions.value(id)) {
    session->stop();
    if (session == m_session) showSession(makeSession(ChatStore::newId()));
    letGo(session);
  }
  m_list->model()->remove(id);
  m_store->remove(id);
  BarMessage message;
  message.key = QStringLiteral("deleted");
  message.text = tr("“%1” was deleted.").arg(chat.title);
  message.timeoutMs = kUndoMs;
  message.actions = {{tr("Undo"), [this, chat] { undoDelete(chat); }}};
  message.onClosed = [this, id] { m_store->purge(id); };
  m_bars->show(message);
}

void ChatPage::undoDelete(const ChatSummary& chat) {
  m_store->restore(chat.id);
  m_store->requestList();
  openChat(chat.id);
}

void ChatPage::send(const QString& text) {
  if (m_editing >= 0) {
    const int index = m_editing;
    endEdit();
    m_session->resend(index, text);
  } else {
    m_session->send(text);
    m_composer->clear();
  }
  m_bars->remove(QStringLiteral("too-long"));
  updateState();
}

void ChatPage::beginEdit(int index) {
  if (index < 0 || index >= m_session->messages().size() || m_session->answering()) return;
  m_editing = index;
  m_composer->setEditing(true);
  m_composer->setText(m_session->messages()[index].content);
  m_composer->focusInput();
}

void ChatPage::endEdit() {
  if (m_editing < 0) return;
  m_editing = -1;
  m_composer->setEditing(false);
  m_composer->clear();
}

void ChatPage::editLast() {
  beginEdit(m_session->lastUserIndex());
}
void ChatPage::regenerate() {
  if (!m_session->answering()) m_session->regenerate(m_session->lastReplyIndex());
}

void ChatPage::copyLastReply() {
  const int index = m_session->lastReplyIndex();
  if (index >= 0) QApplication::clipboard()->setText(m_session->messages()[index].content);
}

void ChatPage::showSettings() {
  ChatSettingsDialog dialog(m_session->conversation().settings, this);
  if (dialog.exec() != QDialog::Accepted) return;
  m_session->setSettings(dialog.settings());
  measureSoon();
}

void ChatPage::onTooLong(int promptTokens, int contextTokens) {
  const QLocale locale;
  BarMessage message;
  message.kind = BarKind::Warning;
  message.key = QStringLiteral("too-long");
  message.text = tr("This chat has outgrown the context: it takes %1 tokens and the model has room "
                    "for %2. Nothing was cut off. Start a new chat, or edit an earlier message.")
                     .arg(locale.toString(promptTokens), locale.toString(contextTokens));
  message.actions = {{tr("New chat"), [this] { newChat(); }}};
  m_bars->show(message);
}

void ChatPage::onMeasured(const PromptSize& size) {
  m_composer->setSize(size);
  if (size.error.isEmpty() && size.tokens >= size.contextTokens) {
    onTooLong(size.tokens, size.contextTokens);
  } else {
    m_bars->remove(QStringLiteral("too-long"));
  }
}

void ChatPage::measureSoon() {
  m_measureTimer->start();
}

void ChatPage::measure() {
  if (m_client->model() == nullptr) {
    m_composer->setSize({});
    return;
  }
  if (m_session->answering()) return;  // measured when it ends
  m_client->measure(m_session->withDraft(m_editing >= 0 ? QString() : m_composer->text()));
}

void ChatPage::updateState() {
  const auto model = m_client->model();
  const HostState state = m_client->status().state;
  const bool loading = state == HostState::kLoading || state == HostState::kDraining;
  const QString reason = loading ? tr("The model is still loading.") : tr("No model is loaded.");
  m_composer->setAnswering(m_session->answering());
  m_composer->setReady(model != nullptr, reason);
  m_middle->setCurrentIndex(m_session->messages().isEmpty() ? 0 : 1);
  if (model != nullptr) {
    m_emptyTitle->setText(tr("Ask anything"));
    m_emptyText->setText(
        tr("%1 answers on this machine. Nothing you write leaves it.").arg(model->id));
  } else {
    m_emptyTitle->setText(loading ? tr("Loading the model…") : tr("No model is loaded"));
    m_emptyText->setText(loading ? tr("You can write your first message meanwhile.")
                                 : tr("Choose a model to begin."));
  }
  m_emptyButton->setVisible(model == nullptr && !loading);
  if (model == nullptr || !m_session->answering()) measureSoon();
}

void ChatPage::toggleList() {
  if (width() < kListMinPageWidth) {
    m_listForced = !m_listForced;
  } else {
    m_listWanted = !m_listWanted;
  }
  updateListVisibility();
}

void ChatPage::updateListVisibility() {
  m_list->setVisible(width() < kListMinPageWidth ? m_listForced : m_listWanted);
}

void ChatPage::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (width() >= kListMinPageWidth) m_listForced = false;
  updateListVisibility();
}

void ChatPage::focusInput() {
  m_composer->focusInput();
}

void ChatPage::focusSearch() {
  if (m_list->isHidden()) toggleList();
  m_list->focusSearch();
}

void ChatPage::finish() {
  for (ChatSession* session : std::as_const(m_sessions)) session->stop();
}

QByteArray ChatPage::saveLayout() const {
  return m_splitter->saveState();
}

void ChatPage::restoreLayout(const QByteArray& state) {
  if (!state.isEmpty()) m_splitter->restoreState(state);
}

}  // namespace quire
