#pragma once

#include <QAbstractTableModel>
#include <deque>

#include "engine/server/http_server.h"

namespace quire {

// The server's newest requests, newest first, as a table.
class RequestLogModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  enum Column {
    kTime,
    kClient,
    kRequest,
    kStatus,
    kPrompt,
    kCached,
    kOutput,
    kFirstToken,
    kDuration,
    kNumColumns
  };
  static constexpr int kMaxRows = 1000;

  using QAbstractTableModel::QAbstractTableModel;
  void append(const RequestLogEntry& entry);
  void clear();

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  QString cell(const RequestLogEntry& entry, int column) const;

  std::deque<RequestLogEntry> m_entries;
};

}  // namespace quire
