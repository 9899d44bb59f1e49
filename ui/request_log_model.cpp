#include "ui/request_log_model.h"

#include <QDateTime>
#include <QLocale>

#include "ui/theme.h"

namespace quire {

void RequestLogModel::append(const RequestLogEntry& entry) {
  beginInsertRows({}, 0, 0);
  m_entries.push_front(entry);
  endInsertRows();
  if (m_entries.size() > kMaxRows) {
    beginRemoveRows({}, kMaxRows, kMaxRows);
    m_entries.pop_back();
    endRemoveRows();
  }
}

void RequestLogModel::clear() {
  beginResetModel();
  m_entries.clear();
  endResetModel();
}

int RequestLogModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_entries.size());
}

int RequestLogModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : kNumColumns;
}

QString RequestLogModel::cell(const RequestLogEntry& entry, int column) const {
  const QLocale locale;
  const auto seconds = [&](double value) {
    return value < 0 ? QString() : locale.toString(value, 'f', 2) + tr(" s");
  };
  const auto count = [&](int value) {
    return entry.model.empty() ? QString() : locale.toString(value);
  };
  switch (column) {
    case kTime:
      return locale.toString(
          QDateTime::fromMSecsSinceEpoch(static_cast<qint64>(entry.time_unix_s * 1000)).time(),
          QStringLiteral("HH:mm:ss"));
    case kClient:
      return QString::fromStdString(entry.client);
    case kRequest:
      return QString::fromStdString(entry.method + " " + entry.path);
    case kStatus:
      return entry.client_gone ? tr("%1, client left").arg(entry.status)
                               : QString::number(entry.status);
    case kPrompt:
      return count(entry.prompt_tokens);
    case kCached:
      return count(entry.cached_tokens);
    case kOutput:
      return count(entry.output_tokens);
    case kFirstToken:
      return seconds(entry.ttft_s);
    case kDuration:
      return seconds(entry.duration_s);
    default:
      return {};
  }
}

QVariant RequestLogModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= static_cast<int>(m_entries.size())) return {};
  const RequestLogEntry& entry = m_entries[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
      return cell(entry, index.column());
    case Qt::ToolTipRole:
      return cell(entry, index.column());
    case Qt::TextAlignmentRole:
      return static_cast<int>(index.column() >= kPrompt ? Qt::AlignRight | Qt::AlignVCenter
                                                        : Qt::AlignLeft | Qt::AlignVCenter);
    case Qt::ForegroundRole:
      if (index.column() == kStatus && entry.status >= 400) return Theme::current().danger;
      return {};
    default:
      return {};
  }
}

QVariant RequestLogModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || role != Qt::DisplayRole) return {};
  switch (section) {
    case kTime:
      return tr("Time");
    case kClient:
      return tr("Client");
    case kRequest:
      return tr("Request");
    case kStatus:
      return tr("Status");
    case kPrompt:
      return tr("Prompt");
    case kCached:
      return tr("Cached");
    case kOutput:
      return tr("Output");
    case kFirstToken:
      return tr("First token");
    case kDuration:
      return tr("Duration");
    default:
      return {};
  }
}

}  // namespace quire
