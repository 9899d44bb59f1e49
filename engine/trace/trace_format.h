#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/core/step_record.h"
#include "engine/result.h"

// The .quiretrace file. It begins with
//
//   "QUIRETRC"  format version (1 byte)  varint length  header: one JSON object  checksum
//
// and goes on with frames: kind (1 byte), varint payload length, payload, checksum. A checksum is
// the first four bytes of the BLAKE2b of what it covers: the JSON, or kind and payload. Integers
// are varints, deltas against the frame before where that is shorter. A reader skips kinds it does
// not know. Everything the engine's records say is kept, except block hashes, which a replay
// computes anew; the header says so ("block_hashes": false).
namespace quire {

inline constexpr std::string_view kTraceMagic = "QUIRETRC";
inline constexpr std::uint8_t kTraceVersion = 2;
inline constexpr std::size_t kMaxTraceHeaderBytes = 1 << 16;
inline constexpr std::size_t kMaxTracePayloadBytes = 1 << 26;
// Most blocks a pool may have to be recorded, or a host pool to be replayed.
inline constexpr int kMaxTraceBlocks = 1 << 24;

enum class FrameKind : std::uint8_t {
  kArrival = 1,
  kAbort,
  kReconfigure,
  kCacheReset,
  kStep,
  kKeyframe,  // deltas start anew behind it, so that a reader may begin here
  kEnd,       // the recording was closed, not cut off
};

struct TraceHeader {
  EngineConfig config;  // in force when the recording began
  std::string program;  // "quire 0.1.0"
  std::string model;
  int vocab_size = 0;
  std::int64_t block_bytes = 0;     // of keys and values in one block; 0 = not known
  std::int64_t started_unix_s = 0;  // wall clock at the start
};

// What a recording holds, in the order it happened.
using TraceEvent = std::variant<ArrivalRecord, AbortRecord, ReconfigureRecord, CacheResetRecord,
                                StepRecord, EngineSnapshot>;

struct TraceFrame {
  FrameKind kind{};
  std::string_view payload;
};

std::string encode_header(const TraceHeader& header);
// Removes the header from the front of `bytes`. `label` begins the sentence of an error.
Result<TraceHeader> take_header(std::string_view& bytes, const std::string& label);

void append_frame(std::string& target, FrameKind kind, std::string_view payload);
// Removes one frame from the front of `bytes`. False, leaving `bytes`, when it is cut off or its
// checksum is wrong.
bool take_frame(std::string_view& bytes, TraceFrame& frame);

}  // namespace quire
