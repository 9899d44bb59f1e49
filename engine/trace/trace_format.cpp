#include "engine/trace/trace_format.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <nlohmann/json.hpp>

#include "engine/formats/checked_json.h"
#include "engine/trace/wire.h"
#include "kernels/check.h"

namespace quire {
namespace {

constexpr std::size_t kChecksumBytes = 4;
using Json = nlohmann::ordered_json;

std::array<char, kChecksumBytes> checksum(std::string_view head, std::string_view body) {
  static const bool ready = sodium_init() >= 0;
  QUIRE_CHECK(ready);
  std::array<unsigned char, crypto_generichash_BYTES_MIN> digest;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, digest.size());
  for (const std::string_view part : {head, body})
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(part.data()),
                              part.size());
  crypto_generichash_final(&state, digest.data(), digest.size());
  std::array<char, kChecksumBytes> first;
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = static_cast<char>(digest[i]);
  return first;
}

bool matches(std::string_view head, std::string_view body, std::string_view stored) {
  const auto sum = checksum(head, body);
  return std::string_view(sum.data(), sum.size()) == stored;
}

// Removes a varint length and what it counts, then a checksum. False when cut off.
bool take_block(std::string_view& bytes, std::size_t most, std::string_view& body,
                std::string_view& sum) {
  std::string_view left = bytes;
  std::uint64_t size = 0;
  for (int shift = 0;; shift += 7) {
    if (left.empty() || shift > 28) return false;
    const auto part = static_cast<std::uint8_t>(left.front());
    left.remove_prefix(1);
    size |= std::uint64_t{part & 0x7Fu} << shift;
    if (part < 0x80) break;
  }
  if (size > most || left.size() < kChecksumBytes || size > left.size() - kChecksumBytes)
    return false;
  body = left.substr(0, static_cast<std::size_t>(size));
  sum = left.substr(body.size(), kChecksumBytes);
  bytes = left.substr(body.size() + kChecksumBytes);
  return true;
}

void append_block(std::string& target, std::string_view head, std::string_view body) {
  WireWriter(target).text(body);
  const auto sum = checksum(head, body);
  target.append(sum.data(), sum.size());
}

Error bad_header(const std::string& label) {
  return make_error(ErrorCode::kInvalidArgument, label + " has a header that is damaged.");
}

Status read_config(const nlohmann::json& fields, EngineConfig& config, const std::string& label) {
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_string()) return bad_header(label);
    const Status set = set_config_field(config, name, value.get_ref<const std::string&>());
    if (!set.ok())
      return make_error(ErrorCode::kInvalidArgument,
                        label + " has a setting this version cannot use. " + set.error().message);
  }
  QUIRE_RETURN_IF_ERROR(validate(config));
  if (config.num_blocks > kMaxTraceBlocks || config.num_swap_blocks > kMaxTraceBlocks)
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is of a pool of more than {} blocks.", label, kMaxTraceBlocks));
  return Ok{};
}

template <typename T>
bool read_field(const nlohmann::json& json, const char* name, T& value) {
  const auto it = json.find(name);
  if (it == json.end()) return true;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!it->is_string()) return false;
    value = it->get<std::string>();
    return true;
  } else {
    if (!it->is_number_integer()) return false;
    const auto wide = it->template get<std::int64_t>();
    value = static_cast<T>(wide);
    return wide >= 0 && static_cast<std::int64_t>(value) == wide;
  }
}

}  // namespace

std::string encode_header(const TraceHeader& header) {
  Json config = Json::object();
  for (const ConfigField& field : config_fields(header.config))
    config[std::string(field.name)] = field.value;
  const Json json = {{"format", "quiretrace"},
                     {"program", header.program},
                     {"model", header.model},
                     {"vocab_size", header.vocab_size},
                     {"block_bytes", header.block_bytes},
                     {"started_unix_s", header.started_unix_s},
                     {"block_hashes", false},
                     {"config", config}};
  std::string bytes(kTraceMagic);
  bytes.push_back(static_cast<char>(kTraceVersion));
  append_block(bytes, {}, json.dump(-1, ' ', false, Json::error_handler_t::replace));
  return bytes;
}

Result<TraceHeader> take_header(std::string_view& bytes, const std::string& label) {
  if (!bytes.starts_with(kTraceMagic) || bytes.size() == kTraceMagic.size())
    return make_error(ErrorCode::kInvalidArgument, label + " is not a recording of Quire.");
  const auto version = static_cast<std::uint8_t>(bytes[kTraceMagic.size()]);
  if (version != kTraceVersion)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} has format version {}; this program reads version {}.", label,
                                  version, kTraceVersion));
  bytes.remove_prefix(kTraceMagic.size() + 1);
  std::string_view body, sum;
  if (!take_block(bytes, kMaxTraceHeaderBytes, body, sum) || !matches({}, body, sum))
    return bad_header(label);
  QUIRE_TRY(const nlohmann::json json, parse_checked_json(body, label + " has a header that"));
  TraceHeader header;
  if (!json.is_object() || !json.contains("config") || !json["config"].is_object() ||
      !read_field(json, "program", header.program) || !read_field(json, "model", header.model) ||
      !read_field(json, "vocab_size", header.vocab_size) ||
      !read_field(json, "block_bytes", header.block_bytes) ||
      !read_field(json, "started_unix_s", header.started_unix_s) || header.vocab_size < 1)
    return bad_header(label);
  QUIRE_RETURN_IF_ERROR(read_config(json["config"], header.config, label));
  return header;
}

void append_frame(std::string& target, FrameKind kind, std::string_view payload) {
  const char head = static_cast<char>(kind);
  target.push_back(head);
  append_block(target, {&head, 1}, payload);
}

bool take_frame(std::string_view& bytes, TraceFrame& frame) {
  if (bytes.empty()) return false;
  std::string_view left = bytes.substr(1), body, sum;
  if (!take_block(left, kMaxTracePayloadBytes, body, sum) ||
      !matches(bytes.substr(0, 1), body, sum))
    return false;
  frame = {static_cast<FrameKind>(bytes.front()), body};
  bytes = left;
  return true;
}

}  // namespace quire
