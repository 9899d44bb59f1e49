#pragma once

#include <QDateTime>
#include <QString>
#include <QVector>

#include "engine/sampling/params.h"

namespace quire {

// A turn's author. Values are stored in the chat database.
enum class Role { System = 0, User = 1, Assistant = 2 };

// How a stored message ended. Values are stored in the chat database.
enum class MessageState {
  Complete = 0,
  Streaming = 1,    // being written; found at start it means the program died meanwhile
  Stopped = 2,      // the person pressed Stop
  Failed = 3,       // `error` says why
  Interrupted = 4,  // the program ended while the answer was streaming
};

// Measurements of one answer. Negative = unknown.
struct MessageStats {
  int promptTokens = -1;
  int cachedTokens = -1;  // of the prompt, found in the prefix cache
  int outputTokens = -1;
  double firstTokenSeconds = -1;  // since Send
  double lastTokenSeconds = -1;
  int preemptions = 0;
  QString stopReason;  // "stop", "length", "stopped", "error", or the stop string
  QString model;

  // Tokens after the first over the time after the first: the wait is told apart. -1 = unknown.
  double tokensPerSecond() const {
    const double seconds = lastTokenSeconds - firstTokenSeconds;
    return outputTokens > 1 && firstTokenSeconds >= 0 && seconds > 0 ? (outputTokens - 1) / seconds
                                                                     : -1;
  }
};

struct Message {
  QString id;  // UUID
  Role role = Role::User;
  QString content;
  MessageState state = MessageState::Complete;
  QString error;  // a sentence, when Failed
  MessageStats stats;
  QDateTime created;
};

// What a chat asks of the model, kept with the chat.
struct ChatSettings {
  QString systemPrompt;
  SamplingParams sampling;  // stop strings and ids are left to the model
};

struct ChatSummary {
  QString id;  // UUID
  QString title;
  QDateTime updated;
};

// Turns in order, oldest first, without the system prompt.
struct Conversation {
  ChatSettings settings;
  QVector<Message> messages;
};

}  // namespace quire
