#pragma once

#include <QColor>
#include <cmath>

#include "engine/core/ids.h"
#include "ui/theme.h"

namespace quire {

// A request's colour, the same in every view for its whole life: the golden angle spreads
// neighbouring ids over the hue circle; lightness is fixed per theme.
inline QColor requestColor(RequestId request, bool dark) {
  constexpr double kGoldenAngle = 137.50776405;
  const double hue = std::fmod(static_cast<double>(index(request)) * kGoldenAngle + 205.0, 360.0);
  return QColor::fromHslF(static_cast<float>(hue / 360.0), dark ? 0.55f : 0.60f,
                          dark ? 0.60f : 0.47f);
}

inline QColor requestColor(RequestId request) {
  return requestColor(request, Theme::current().dark);
}

// The colour at `share` of itself over `back`.
inline QColor mixed(const QColor& color, const QColor& back, double share) {
  const auto mix = [share](int a, int b) {
    return static_cast<int>(std::lround(a * share + b * (1 - share)));
  };
  return QColor(mix(color.red(), back.red()), mix(color.green(), back.green()),
                mix(color.blue(), back.blue()));
}

}  // namespace quire
