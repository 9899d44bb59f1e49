#include "ui/chat_serial.h"

#include <QJsonDocument>
#include <QJsonObject>
#include <cmath>
#include <limits>

namespace quire {
namespace {

QString compact(const QJsonObject& object) {
  return QString::fromUtf8(QJsonDocument(object).toJson(QJsonDocument::Compact));
}

QJsonObject parse(const QString& json) {
  return QJsonDocument::fromJson(json.toUtf8()).object();
}

template <typename Number>
void take(const QJsonObject& object, const char* key, double low, double high, Number& target) {
  const QJsonValue value = object.value(QLatin1String(key));
  if (!value.isDouble()) return;
  const double number = value.toDouble();
  if (std::isfinite(number) && number >= low && number <= high) {
    target = static_cast<Number>(number);
  }
}

void take(const QJsonObject& object, const char* key, QString& target) {
  const QJsonValue value = object.value(QLatin1String(key));
  if (value.isString()) target = value.toString();
}

constexpr double kMaxInt = std::numeric_limits<int>::max();

}  // namespace

QString toJson(const ChatSettings& settings) {
  const SamplingParams& s = settings.sampling;
  QJsonObject object{{QStringLiteral("system_prompt"), settings.systemPrompt},
                     {QStringLiteral("max_tokens"), s.max_tokens},
                     {QStringLiteral("temperature"), s.temperature},
                     {QStringLiteral("top_k"), s.top_k},
                     {QStringLiteral("top_p"), s.top_p},
                     {QStringLiteral("min_p"), s.min_p},
                     {QStringLiteral("repetition_penalty"), s.repetition_penalty},
                     {QStringLiteral("presence_penalty"), s.presence_penalty},
                     {QStringLiteral("frequency_penalty"), s.frequency_penalty}};
  // As text: a JSON number holds only 53 bits.
  if (s.seed) object.insert(QStringLiteral("seed"), QString::number(*s.seed));
  return compact(object);
}

ChatSettings settingsFromJson(const QString& json) {
  const QJsonObject object = parse(json);
  ChatSettings settings;
  take(object, "system_prompt", settings.systemPrompt);
  SamplingParams& s = settings.sampling;
  take(object, "max_tokens", -1, kMaxInt, s.max_tokens);
  take(object, "temperature", 0, 100, s.temperature);
  take(object, "top_k", 0, kMaxInt, s.top_k);
  take(object, "top_p", 1e-6, 1, s.top_p);
  take(object, "min_p", 0, 1, s.min_p);
  take(object, "repetition_penalty", 1e-3, 100, s.repetition_penalty);
  take(object, "presence_penalty", -2, 2, s.presence_penalty);
  take(object, "frequency_penalty", -2, 2, s.frequency_penalty);
  QString seed;
  take(object, "seed", seed);
  bool ok = false;
  const qulonglong number = seed.toULongLong(&ok);
  if (ok) s.seed = number;
  return settings;
}

QString toJson(const MessageStats& stats) {
  return compact({{QStringLiteral("prompt_tokens"), stats.promptTokens},
                  {QStringLiteral("cached_tokens"), stats.cachedTokens},
                  {QStringLiteral("output_tokens"), stats.outputTokens},
                  {QStringLiteral("first_token_s"), stats.firstTokenSeconds},
                  {QStringLiteral("last_token_s"), stats.lastTokenSeconds},
                  {QStringLiteral("preemptions"), stats.preemptions},
                  {QStringLiteral("stop_reason"), stats.stopReason},
                  {QStringLiteral("model"), stats.model}});
}

MessageStats statsFromJson(const QString& json) {
  const QJsonObject object = parse(json);
  MessageStats stats;
  take(object, "prompt_tokens", -1, kMaxInt, stats.promptTokens);
  take(object, "cached_tokens", -1, kMaxInt, stats.cachedTokens);
  take(object, "output_tokens", -1, kMaxInt, stats.outputTokens);
  take(object, "first_token_s", -1, 1e9, stats.firstTokenSeconds);
  take(object, "last_token_s", -1, 1e9, stats.lastTokenSeconds);
  take(object, "preemptions", 0, kMaxInt, stats.preemptions);
  take(object, "stop_reason", stats.stopReason);
  take(object, "model", stats.model);
  return stats;
}

}  // namespace quire
