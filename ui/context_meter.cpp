#include "ui/context_meter.h"

#include <QFontMetrics>
#include <QLocale>
#include <QPainter>

#include "ui/theme.h"

namespace quire {
namespace {

constexpr int kBarWidth = 72, kBarHeight = 6, kGap = 8;
constexpr double kTight = 0.85;  // of the context; from here on the bar warns

}  // namespace

ContextMeter::ContextMeter(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void ContextMeter::setSize(const PromptSize& size) {
  m_size = size;
  const QString description =
      size.contextTokens > 0
          ? tr("The conversation with your draft takes %1 of context.").arg(text())
          : QString();
  setToolTip(description);
  setAccessibleName(description);
  update();
}

QString ContextMeter::text() const {
  if (m_size.contextTokens <= 0 || !m_size.error.isEmpty()) return {};
  const QLocale locale;
  return tr("%1 of %2 tokens")
      .arg(locale.toString(m_size.tokens), locale.toString(m_size.contextTokens));
}

QSize ContextMeter::sizeHint() const {
  return {kBarWidth + kGap +
              fontMetrics().horizontalAdvance(QStringLiteral("000,000 of 000,000 tokens")),
          fontMetrics().height() + 4};
}

QSize ContextMeter::minimumSizeHint() const {
  return {kBarWidth, fontMetrics().height() + 4};
}

void ContextMeter::paintEvent(QPaintEvent*) {
  const QString label = text();
  if (label.isEmpty()) return;
  const Theme& theme = Theme::current();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const double share = std::min(1.0, static_cast<double>(m_size.tokens) / m_size.contextTokens);
  const bool over = m_size.tokens >= m_size.contextTokens;
  const QRectF bar(0, (height() - kBarHeight) / 2.0, kBarWidth, kBarHeight);
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme.border);
  painter.drawRoundedRect(bar, kBarHeight / 2.0, kBarHeight / 2.0);
  painter.setBrush(over ? theme.danger : share > kTight ? theme.warning : theme.accent);
  painter.drawRoundedRect(
      QRectF(bar.x(), bar.y(), std::max(share * bar.width(), 1.0 * kBarHeight), bar.height()),
      kBarHeight / 2.0, kBarHeight / 2.0);
  painter.setPen(over ? theme.danger : theme.textMuted);
  const QRect words(kBarWidth + kGap, 0, width() - kBarWidth - kGap, height());
  painter.drawText(words, Qt::AlignVCenter | Qt::AlignLeft,
                   fontMetrics().elidedText(label, Qt::ElideRight, words.width()));
}

}  // namespace quire
