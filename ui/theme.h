#pragma once

#include <QColor>
#include <QObject>
#include <QPalette>
#include <QString>

namespace quire {

// The window's semantic colours. Every text colour has a contrast of at least 4.5:1 on the
// backgrounds it is used on, in both themes.
struct Theme {
  bool dark = false;
  QColor window;   // behind everything
  QColor panel;    // sidebars, bars
  QColor surface;  // reading area, inputs
  QColor raised;   // bubbles, cards on a surface
  QColor border;
  QColor text;
  QColor textMuted;
  QColor accent;      // buttons, progress, selection
  QColor accentText;  // on accent
  QColor link;
  QColor codeBackground;
  QColor info, warning, danger, success;                  // text and icons
  QColor infoBack, warningBack, dangerBack, successBack;  // bars behind `text`
  QColor syntaxKeyword, syntaxString, syntaxComment, syntaxNumber, syntaxType, syntaxFunction;

  static const Theme& light();
  static const Theme& darkTheme();
  // The theme in force: follows the application's palette. GUI thread.
  static const Theme& current();

  QPalette palette() const;
};

// WCAG contrast ratio of two opaque colours, 1 to 21.
double contrastRatio(const QColor& a, const QColor& b);

// Tells that Theme::current() is another one. For widgets with a style sheet of their own, which
// are not told of palette changes; the others use QEvent::PaletteChange. GUI thread.
class ThemeNotifier : public QObject {
  Q_OBJECT
 public:
  static ThemeNotifier& instance();

 signals:
  void changed();
};

// Chooses and applies the theme: "light", "dark", or "system" (the desktop's preference from the
// settings portal; without a portal, the palette the application started with).
class ThemeController : public QObject {
  Q_OBJECT
 public:
  explicit ThemeController(QObject* parent = nullptr);

  QString mode() const { return m_mode; }
  void setMode(const QString& mode);

 private:
  void apply();

  QString m_mode = QStringLiteral("system");
  bool m_systemDark = false;
};

}  // namespace quire
