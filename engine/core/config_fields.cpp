#include <fmt/format.h>

#include <charconv>
#include <functional>

#include "engine/core/engine_config.h"

namespace quire {
namespace {

constexpr std::string_view kPolicies[] = {"fcfs", "priority", "lpm"};
constexpr std::string_view kVictims[] = {"last", "cheapest"};
constexpr std::string_view kModes[] = {"recompute", "swap", "auto"};
constexpr std::string_view kIndexes[] = {"hash", "radix"};
constexpr std::string_view kBools[] = {"false", "true"};

std::string to_text(int value) {
  return std::to_string(value);
}
std::string to_text(std::uint64_t value) {
  return std::to_string(value);
}
std::string to_text(double value) {
  return fmt::format("{}", value);
}
std::string to_text(bool value) {
  return std::string(kBools[value ? 1 : 0]);
}

template <typename Number>
bool from_text(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}
bool from_text(std::string_view text, bool& value) {
  if (text != kBools[0] && text != kBools[1]) return false;
  value = text == kBools[1];
  return true;
}

struct Field {
  std::string_view name;
  bool live;
  std::function<std::string(const EngineConfig&)> get;
  std::function<bool(EngineConfig&, std::string_view)> set;
};

template <typename Access>
Field number(std::string_view name, bool live, Access access) {
  return {name, live,
          [access](const EngineConfig& config) {
            EngineConfig copy = config;
            return to_text(access(copy));
          },
          [access](EngineConfig& config, std::string_view text) {
            return from_text(text, access(config));
          }};
}

template <typename Access>
Field choice(std::string_view name, bool live, std::span<const std::string_view> names,
             Access access) {
  using Enum = std::remove_reference_t<decltype(access(std::declval<EngineConfig&>()))>;
  return {name, live,
          [names, access](const EngineConfig& config) {
            EngineConfig copy = config;
            return std::string(names[static_cast<std::size_t>(access(copy))]);
          },
          [names, access](EngineConfig& config, std::string_view text) {
            for (std::size_t i = 0; i < names.size(); ++i) {
              if (names[i] != text) continue;
              access(config) = static_cast<Enum>(i);
              return true;
            }
            return false;
          }};
}

#define QUIRE_MEMBER(member)      \
  [](EngineConfig & c) -> auto& { \
    return c.member;              \
  }

const std::vector<Field>& fields() {
  static const std::vector<Field> all = {
      number("num_blocks", false, QUIRE_MEMBER(num_blocks)),
      number("block_size", false, QUIRE_MEMBER(block_size)),
      number("max_num_seqs", true, QUIRE_MEMBER(max_num_seqs)),
      number("max_num_batched_tokens", true, QUIRE_MEMBER(max_num_batched_tokens)),
      number("max_model_len", false, QUIRE_MEMBER(max_model_len)),
      number("max_queue", true, QUIRE_MEMBER(max_queue)),
      number("enable_prefix_caching", false, QUIRE_MEMBER(enable_prefix_caching)),
      number("enable_chunked_prefill", false, QUIRE_MEMBER(enable_chunked_prefill)),
      number("long_prefill_token_threshold", true, QUIRE_MEMBER(long_prefill_token_threshold)),
      number("max_num_partial_prefills", true, QUIRE_MEMBER(max_num_partial_prefills)),
      number("prefill_chunk_alone", true, QUIRE_MEMBER(prefill_chunk.alone)),
      number("prefill_chunk_contended", true, QUIRE_MEMBER(prefill_chunk.contended)),
      number("max_itl_ms", true, QUIRE_MEMBER(max_itl_ms)),
      choice("policy", true, kPolicies, QUIRE_MEMBER(policy)),
      choice("victim", true, kVictims, QUIRE_MEMBER(victim)),
      choice("preemption_mode", true, kModes, QUIRE_MEMBER(preemption_mode)),
      number("num_swap_blocks", false, QUIRE_MEMBER(num_swap_blocks)),
      choice("prefix_index", false, kIndexes, QUIRE_MEMBER(prefix_index)),
      number("lpm_max_overtakes", true, QUIRE_MEMBER(lpm_max_overtakes)),
      number("max_displacements", true, QUIRE_MEMBER(max_displacements)),
      number("seed", false, QUIRE_MEMBER(seed)),
  };
  return all;
}

#undef QUIRE_MEMBER

}  // namespace

std::vector<ConfigField> config_fields(const EngineConfig& config) {
  std::vector<ConfigField> result;
  for (const Field& field : fields()) result.push_back({field.name, field.get(config), field.live});
  return result;
}

Status set_config_field(EngineConfig& config, std::string_view name, std::string_view value) {
  for (const Field& field : fields()) {
    if (field.name != name) continue;
    if (field.set(config, value)) return Ok{};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} cannot be \"{}\".", name, value));
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("There is no setting called \"{}\".", name));
}

}  // namespace quire
