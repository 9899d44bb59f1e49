#pragma once

#include <cstdint>
#include <string>

namespace quire {

// Memory that could be taken now without swapping: MemAvailable, within the cgroup's limit. Bytes.
std::uint64_t free_memory_bytes();

// Memory of this process that is in RAM: its own, and the pages of files it has mapped and read.
// `peak_bytes`: the most there was since the process began. 0 where the system does not say.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0, peak_bytes = 0;
};
ProcessMemory process_memory();

// "93.8 MiB": binary units, one decimal.
std::string readable_bytes(double bytes);

}  // namespace quire
