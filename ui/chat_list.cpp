#include "ui/chat_list.h"

#include <QAction>
#include <QEvent>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QKeySequence>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QLocale>
#include <QMenu>
#include <QPushButton>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/icons.h"
#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kSearchDelayMs = 180;
constexpr int kMaxTitle = 200;

auto byId(const QString& id) {
  return [&id](const ChatSummary& chat) { return chat.id == id; };
}

}  // namespace

int ChatListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_shown.size());
}

QVariant ChatListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= m_shown.size()) return {};
  const ChatSummary& chat = m_shown[index.row()];
  switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole:
      return chat.title.isEmpty() ? tr("Untitled") : chat.title;
    case Qt::ToolTipRole:
      return tr("%1\n%2").arg(chat.title, QLocale().toString(chat.updated, QLocale::ShortFormat));
    case IdRole:
      return chat.id;
    default:
      return {};
  }
}

Qt::ItemFlags ChatListModel::flags(const QModelIndex& index) const {
  return QAbstractListModel::flags(index) |
         (index.isValid() ? Qt::ItemIsEditable : Qt::NoItemFlags);
}

bool ChatListModel::setData(const QModelIndex& index, const QVariant& value, int role) {
  const QString title = value.toString().simplified().left(kMaxTitle);
  if (!index.isValid() || role != Qt::EditRole || title.isEmpty()) return false;
  const QString id = index.data(IdRole).toString();
  setTitle(id, title);
  emit renamed(id, title);
  return true;
}

void ChatListModel::setChats(const QVector<ChatSummary>& chats) {
  m_all = chats;
  refilter();
}

void ChatListModel::put(const ChatSummary& chat) {
  m_all.removeIf(byId(chat.id));
  m_all.prepend(chat);
  const auto at = std::find_if(m_shown.begin(), m_shown.end(), byId(chat.id));
  if (at == m_shown.begin() && at != m_shown.end()) {
    *at = chat;
    emit dataChanged(index(0), index(0));
    return;
  }
  if (at != m_shown.end()) {
    const int row = static_cast<int>(at - m_shown.begin());
    beginMoveRows({}, row, row, {}, 0);
    m_shown.erase(at);
    m_shown.prepend(chat);
    endMoveRows();
    return;
  }
  if (m_filtering && !m_filter.contains(chat.id)) return;
  beginInsertRows({}, 0, 0);
  m_shown.prepend(chat);
  endInsertRows();
}

void ChatListModel::setTitle(const QString& id, const QString& title) {
  for (QVector<ChatSummary>* list : {&m_all, &m_shown}) {
    const auto it = std::find_if(list->begin(), list->end(), byId(id));
    if (it != list->end()) it->title = title;
  }
  if (const QModelIndex changed = indexOf(id); changed.isValid())
    emit dataChanged(changed, changed);
}

void ChatListModel::remove(const QString& id) {
  m_all.removeIf(byId(id));
  const QModelIndex gone = indexOf(id);
  if (!gone.isValid()) return;
  beginRemoveRows({}, gone.row(), gone.row());
  m_shown.removeAt(gone.row());
  endRemoveRows();
}

void ChatListModel::setFilter(const QStringList& ids) {
  m_filtering = true;
  m_filter = {ids.begin(), ids.end()};
  refilter();
}

void ChatListModel::clearFilter() {
  if (!std::exchange(m_filtering, false)) return;
  refilter();
}

void ChatListModel::refilter() {
  beginResetModel();
  m_shown.clear();
  for (const ChatSummary& chat : m_all) {
    if (!m_filtering || m_filter.contains(chat.id)) m_shown.push_back(chat);
  }
  endResetModel();
}

QModelIndex ChatListModel::indexOf(const QString& id) const {
  const auto it = std::find_if(m_shown.begin(), m_shown.end(), byId(id));
  return it == m_shown.end() ? QModelIndex() : index(static_cast<int>(it - m_shown.begin()));
}

QString ChatListModel::title(const QString& id) const {
  const auto it = std::find_if(m_all.begin(), m_all.end(), byId(id));
  return it == m_all.end() ? QString() : it->title;
}

ChatList::ChatList(QWidget* parent)
    : QWidget(parent),
      m_model(new ChatListModel(this)),
      m_view(new QListView),
      m_search(new QLineEdit),
      m_hint(new QLabel),
      m_searchTimer(new QTimer(this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  layout->setSpacing(8);
  auto* fresh = new QPushButton(icon(QStringLiteral("new")), tr("New chat"));
  fresh->setToolTip(
      tr("New chat (%1)").arg(QKeySequence(QKeySequence::New).toString(QKeySequence::NativeText)));
  connect(fresh, &QPushButton::clicked, this, &ChatList::newWanted);
  layout->addWidget(fresh);
  m_search->setPlaceholderText(tr("Search chats"));
  m_search->setAccessibleName(tr("Search chats"));
  m_search->setClearButtonEnabled(true);
  m_search->addAction(icon(QStringLiteral("search")), QLineEdit::LeadingPosition);
  m_search->installEventFilter(this);
  layout->addWidget(m_search);
  m_hint->setWordWrap(true);
  m_hint->setForegroundRole(QPalette::PlaceholderText);
  m_hint->setContentsMargins(4, 4, 4, 4);
  layout->addWidget(m_hint);

  m_view->setModel(m_model);
  m_view->setUniformItemSizes(true);
  m_view->setFrameShape(QFrame::NoFrame);
  m_view->setTextElideMode(Qt::ElideRight);
  m_view->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_view->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  m_view->setEditTriggers(QAbstractItemView::EditKeyPressed);
  m_view->setContextMenuPolicy(Qt::CustomContextMenu);
  m_view->viewport()->setAutoFillBackground(false);
  m_view->setSpacing(1);
  m_view->setAccessibleName(tr("Chats"));
  m_view->installEventFilter(this);
  layout->addWidget(m_view, 1);
  connect(m_view, &QListView::clicked, this, [this](const QModelIndex& index) {
    emit chosen(index.data(ChatListModel::IdRole).toString());
  });
  connect(m_view, &QListView::activated, this, [this](const QModelIndex& index) {
    emit chosen(index.data(ChatListModel::IdRole).toString());
  });
  connect(m_view, &QListView::customContextMenuRequested, this, &ChatList::showMenu);
  connect(m_model, &QAbstractItemModel::modelReset, this, [this] {
    setCurrent(m_current);
    updateHint();
  });
  connect(m_model, &QAbstractItemModel::rowsInserted, this, &ChatList::updateHint);
  connect(m_model, &QAbstractItemModel::rowsRemoved, this, &ChatList::updateHint);

  m_searchTimer->setSingleShot(true);
  m_searchTimer->setInterval(kSearchDelayMs);
  connect(m_search, &QLineEdit::textChanged, this, &ChatList::onSearchChanged);
  connect(m_searchTimer, &QTimer::timeout, this,
          [this] { emit searchWanted(m_search->text().trimmed()); });
  updateHint();
  applyTheme();
}

void ChatList::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange) applyTheme();
  QWidget::changeEvent(event);
}

void ChatList::applyTheme() {
  const Theme& theme = Theme::current();
  const QString sheet =
      QStringLiteral(
          "QListView { background: transparent; outline: none; }"
          "QListView::item { padding: 6px 8px; border-radius: 6px; color: %1; }"
          "QListView::item:hover { background: %2; }"
          "QListView::item:selected { background: %3; color: %1; }"
          "QListView::item:focus { border: 1px solid %4; }")
          .arg(theme.text.name(), theme.raised.name(), theme.infoBack.name(), theme.accent.name());
  if (m_view->styleSheet() != sheet) m_view->setStyleSheet(sheet);
}

void ChatList::setCurrent(const QString& id) {
  m_current = id;
  const QModelIndex index = m_model->indexOf(id);
  m_view->setCurrentIndex(index);
  if (index.isValid()) m_view->scrollTo(index);
}

void ChatList::focusSearch() {
  m_search->setFocus(Qt::ShortcutFocusReason);
  m_search->selectAll();
}

void ChatList::setFound(const QString& text, const QStringList& ids) {
  if (text == m_search->text().trimmed()) m_model->setFilter(ids);
}

void ChatList::onSearchChanged() {
  if (m_search->text().trimmed().isEmpty()) {
    m_searchTimer->stop();
    m_model->clearFilter();
  } else {
    m_searchTimer->start();
  }
}

void ChatList::updateHint() {
  const bool searching = !m_search->text().trimmed().isEmpty();
  const bool empty = m_model->rowCount() == 0;
  m_hint->setVisible(empty);
  m_hint->setText(searching ? tr("No chat contains this.")
                            : tr("Your chats appear here once you send a message."));
}

void ChatList::showMenu(const QPoint& at) {
  const QModelIndex index = m_view->indexAt(at);
  if (!index.isValid()) return;
  const QString id = index.data(ChatListModel::IdRole).toString();
  QMenu menu(this);
  menu.addAction(icon(QStringLiteral("edit")), tr("Rename"), this,
                 [this, index] { m_view->edit(index); })
      ->setShortcut(Qt::Key_F2);
  menu.addAction(icon(QStringLiteral("delete")), tr("Delete"), this,
                 [this, id] { emit deleteWanted(id); })
      ->setShortcut(QKeySequence::Delete);
  menu.exec(m_view->viewport()->mapToGlobal(at));
}

bool ChatList::eventFilter(QObject* object, QEvent* event) {
  if (event->type() != QEvent::KeyPress) return QWidget::eventFilter(object, event);
  const auto* key = static_cast<QKeyEvent*>(event);
  if (object == m_search && key->key() == Qt::Key_Escape && !m_search->text().isEmpty()) {
    m_search->clear();
    return true;
  }
  if (object == m_search && key->key() == Qt::Key_Down) {
    m_view->setFocus();
    return true;
  }
  if (object == m_view && key->key() == Qt::Key_Delete && m_view->currentIndex().isValid()) {
    emit deleteWanted(m_view->currentIndex().data(ChatListModel::IdRole).toString());
    return true;
  }
  return QWidget::eventFilter(object, event);
}

}  // namespace quire
