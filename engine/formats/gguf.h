#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/formats/weight_source.h"
#include "engine/result.h"

namespace quire {

// One metadata value. Arrays are homogeneous; arrays of arrays are refused.
struct GgufValue {
  using Array =
      std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;
  // Unsigned values above int64's range are refused on reading. Bools are int64 0 or 1 with is_bool
  // set.
  std::variant<std::int64_t, double, std::string, Array> value;
  bool is_bool = false;
};

// A GGUF v2/v3 model (one file, or a split set opened from any of its shards), memory-mapped
// read-only. Every count, length, offset and extent is checked against the file before use. Reading
// a file that shrinks while mapped does not crash; check_intact() reports it. metadata() is the
// first shard's. Immutable after open; any thread.
class GgufFile : public WeightSource {
 public:
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);
  // One whole file from memory, 8-byte aligned. `bytes` must outlive the result.
  static Result<std::unique_ptr<GgufFile>> parse(std::string_view bytes);

  virtual const std::map<std::string, GgufValue, std::less<>>& metadata() const = 0;
  virtual int version() const = 0;
  virtual const std::vector<std::string>& files() const = 0;  // the shards, in order

  // Typed look-ups: nullopt / nullptr when absent or of another kind.
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;  // integers convert
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;
  const std::vector<std::int64_t>* get_ints(std::string_view key) const;
  const std::vector<double>* get_floats(std::string_view key) const;
};

}  // namespace quire
