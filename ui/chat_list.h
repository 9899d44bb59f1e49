#pragma once

#include <QAbstractListModel>
#include <QSet>
#include <QWidget>

#include "ui/chat_types.h"

class QLineEdit;
class QListView;
class QLabel;

namespace quire {

// Chats, newest first. Rows whose id is not in the filter are left out while one is set.
class ChatListModel : public QAbstractListModel {
  Q_OBJECT
 public:
  enum { IdRole = Qt::UserRole + 1 };
  using QAbstractListModel::QAbstractListModel;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;
  bool setData(const QModelIndex& index, const QVariant& value, int role) override;

  void setChats(const QVector<ChatSummary>& chats);
  void put(const ChatSummary& chat);  // adds it at the top, or moves it there
  void setTitle(const QString& id, const QString& title);
  void remove(const QString& id);
  void setFilter(const QStringList& ids);
  void clearFilter();
  QModelIndex indexOf(const QString& id) const;
  QString title(const QString& id) const;
  bool isEmpty() const { return m_all.isEmpty(); }

 signals:
  void renamed(const QString& id, const QString& title);  // by the person

 private:
  void refilter();

  QVector<ChatSummary> m_all;  // newest first
  QVector<ChatSummary> m_shown;
  QSet<QString> m_filter;
  bool m_filtering = false;
};

// The list of chats with a search field and a button for a new one. Long lists cost nothing: rows
// are drawn as they are seen.
class ChatList : public QWidget {
  Q_OBJECT
 public:
  explicit ChatList(QWidget* parent = nullptr);

  ChatListModel* model() const { return m_model; }
  void setCurrent(const QString& id);  // empty: none
  void focusSearch();
  void setFound(const QString& text, const QStringList& ids);

 signals:
  void newWanted();
  void chosen(const QString& id);
  void deleteWanted(const QString& id);
  void searchWanted(const QString& text);

 protected:
  bool eventFilter(QObject* object, QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void onSearchChanged();
  void showMenu(const QPoint& at);
  void updateHint();
  void applyTheme();

  ChatListModel* m_model;
  QListView* m_view;
  QLineEdit* m_search;
  QLabel* m_hint;
  class QTimer* m_searchTimer;
  QString m_current;
};

}  // namespace quire
