#include "ui/theme.h"

#include <QApplication>
#include <QStyleFactory>
#include <algorithm>
#include <cmath>

#include "ui/portal_settings.h"

namespace quire {
namespace {

QColor rgb(QRgb value) {
  return QColor::fromRgb(value);
}

Theme makeLight() {
  Theme t;
  t.dark = false;
  t.window = rgb(0xf3f4f6);
  t.panel = rgb(0xebedf0);
  t.surface = rgb(0xffffff);
  t.raised = rgb(0xeef2f8);
  t.border = rgb(0xd0d4da);
  t.text = rgb(0x1d2126);
  t.textMuted = rgb(0x565d66);
  t.accent = rgb(0x2b5fb8);
  t.accentText = rgb(0xffffff);
  t.link = rgb(0x1f58b5);
  t.codeBackground = rgb(0xf4f5f7);
  t.info = rgb(0x1f58b5);
  t.warning = rgb(0x7a4a00);
  t.danger = rgb(0xa8201a);
  t.success = rgb(0x1b6a35);
  t.infoBack = rgb(0xe3edfb);
  t.warningBack = rgb(0xfdf0d5);
  t.dangerBack = rgb(0xfbe4e2);
  t.successBack = rgb(0xe0f3e6);
  t.syntaxKeyword = rgb(0x8128a0);
  t.syntaxString = rgb(0x1b6a35);
  t.syntaxComment = rgb(0x5f666e);
  t.syntaxNumber = rgb(0x9a4500);
  t.syntaxType = rgb(0x1f58b5);
  t.syntaxFunction = rgb(0x0b6478);
  return t;
}

Theme makeDark() {
  Theme t;
  t.dark = true;
  t.window = rgb(0x1b1d21);
  t.panel = rgb(0x212429);
  t.surface = rgb(0x16181b);
  t.raised = rgb(0x272c35);
  t.border = rgb(0x3b4048);
  t.text = rgb(0xe7e9ec);
  t.textMuted = rgb(0xa7aeb8);
  t.accent = rgb(0x3a6fcb);
  t.accentText = rgb(0xffffff);
  t.link = rgb(0x8ab4f8);
  t.codeBackground = rgb(0x1f2227);
  t.info = rgb(0x8ab4f8);
  t.warning = rgb(0xf2c06b);
  t.danger = rgb(0xff9d94);
  t.success = rgb(0x86d69f);
  t.infoBack = rgb(0x1e2f4a);
  t.warningBack = rgb(0x40320f);
  t.dangerBack = rgb(0x4a1f1c);
  t.successBack = rgb(0x17361f);
  t.syntaxKeyword = rgb(0xd6a3ec);
  t.syntaxString = rgb(0x9ad29f);
  t.syntaxComment = rgb(0x99a1ab);
  t.syntaxNumber = rgb(0xf0b075);
  t.syntaxType = rgb(0x8ab4f8);
  t.syntaxFunction = rgb(0x7fd0df);
  return t;
}

double channel(double value) {
  return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& color) {
  return 0.2126 * channel(color.redF()) + 0.7152 * channel(color.greenF()) +
         0.0722 * channel(color.blueF());
}

}  // namespace

const Theme& Theme::light() {
  static const Theme theme = makeLight();
  return theme;
}

const Theme& Theme::darkTheme() {
  static const Theme theme = makeDark();
  return theme;
}

const Theme& Theme::current() {
  return QApplication::palette().color(QPalette::Window).lightness() < 128 ? darkTheme() : light();
}

QPalette Theme::palette() const {
  QPalette p;
  p.setColor(QPalette::Window, window);
  p.setColor(QPalette::WindowText, text);
  p.setColor(QPalette::Base, surface);
  p.setColor(QPalette::AlternateBase, panel);
  p.setColor(QPalette::Text, text);
  p.setColor(QPalette::PlaceholderText, textMuted);
  p.setColor(QPalette::Button, dark ? rgb(0x2c3037) : rgb(0xf7f8f9));
  p.setColor(QPalette::ButtonText, text);
  p.setColor(QPalette::BrightText, danger);
  p.setColor(QPalette::Highlight, accent);
  p.setColor(QPalette::HighlightedText, accentText);
  p.setColor(QPalette::Link, link);
  p.setColor(QPalette::LinkVisited, link);
  p.setColor(QPalette::ToolTipBase, dark ? rgb(0x2c3037) : rgb(0x1d2126));
  p.setColor(QPalette::ToolTipText, rgb(0xf2f3f5));
  p.setColor(QPalette::Light, dark ? rgb(0x3b4048) : rgb(0xffffff));
  p.setColor(QPalette::Midlight, dark ? rgb(0x31353c) : rgb(0xf3f4f6));
  p.setColor(QPalette::Mid, border);
  p.setColor(QPalette::Dark, dark ? rgb(0x101214) : rgb(0xb6bbc2));
  p.setColor(QPalette::Shadow, dark ? rgb(0x0b0c0e) : rgb(0x8d939b));
  const QColor disabled = dark ? rgb(0x868d96) : rgb(0x757b83);
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    p.setColor(QPalette::Disabled, role, disabled);
  }
  p.setColor(QPalette::Disabled, QPalette::Highlight, border);
  p.setColor(QPalette::Disabled, QPalette::HighlightedText, text);
  return p;
}

double contrastRatio(const QColor& a, const QColor& b) {
  const double first = luminance(a), second = luminance(b);
  return (std::max(first, second) + 0.05) / (std::min(first, second) + 0.05);
}

ThemeNotifier& ThemeNotifier::instance() {
  static ThemeNotifier notifier;
  return notifier;
}

ThemeController::ThemeController(QObject* parent) : QObject(parent) {
  m_systemDark = QApplication::palette().color(QPalette::Window).lightness() < 128;
  QApplication::setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
  connect(new PortalSettings(this), &PortalSettings::colorSchemeChanged, this, [this](bool dark) {
    m_systemDark = dark;
    apply();
  });
  apply();
}

void ThemeController::setMode(const QString& mode) {
  const bool known = mode == QLatin1String("light") || mode == QLatin1String("dark");
  m_mode = known ? mode : QStringLiteral("system");
  apply();
}

void ThemeController::apply() {
  const bool dark =
      m_mode == QLatin1String("dark") || (m_mode == QLatin1String("system") && m_systemDark);
  QApplication::setPalette((dark ? Theme::darkTheme() : Theme::light()).palette());
  emit ThemeNotifier::instance().changed();
}

}  // namespace quire
