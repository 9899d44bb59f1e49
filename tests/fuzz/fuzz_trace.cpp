// Recordings: opening, walking, counting, exporting and replaying never crash, whatever they hold.
#include <cstdint>
#include <string_view>

#include "engine/trace/perfetto.h"
#include "engine/trace/record_text.h"
#include "engine/trace/replay.h"
#include "engine/trace/stats.h"
#include "kernels/check.h"

namespace {

// The fuzzer cannot guess checksums: a damaged payload gets a right one, so that it is looked into.
std::string with_checksums(std::string_view bytes) {
  std::string_view left = bytes;
  if (!quire::take_header(left, "'x'").ok()) return {};
  std::string mended(bytes.substr(0, bytes.size() - left.size()));
  while (left.size() > 2) {
    const auto kind = static_cast<quire::FrameKind>(left[0]);
    std::size_t size = static_cast<std::uint8_t>(left[1]), head = 2;
    if (size >= 0x80) {
      size = (size & 0x7F) | static_cast<std::size_t>(static_cast<std::uint8_t>(left[2])) << 7;
      head = 3;
    }
    left.remove_prefix(head);
    size = std::min(size, left.size());
    quire::append_frame(mended, kind, left.substr(0, size));
    left.remove_prefix(std::min(left.size(), size + 4));
  }
  return mended;
}

void read(std::string_view bytes) {
  const auto opened = quire::TraceReader::parse(bytes, "'x'");
  if (!opened.ok()) {
    QUIRE_CHECK(!opened.error().message.empty());
    return;
  }
  const quire::TraceReader& reader = **opened;
  std::uint64_t steps = 0;
  quire::TraceEvent event;
  for (auto cursor = reader.begin(); cursor.next(event);)
    if (const auto* step = std::get_if<quire::StepRecord>(&event)) {
      ++steps;
      QUIRE_CHECK(!line_of(*step).empty());
    }
  QUIRE_CHECK(steps == reader.num_steps(), steps, reader.num_steps());
  QUIRE_CHECK(reader.seek(~std::uint64_t{0}).next(event));
  QUIRE_CHECK(trace_stats(reader).steps == steps, steps);
  recorded_requests(reader);
  export_perfetto(reader, [](std::string_view) { return true; });
  const auto outcome = replay(reader);
  QUIRE_CHECK(outcome.ok() == reader.starts_fresh());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(with_checksums(bytes));
  return 0;
}
