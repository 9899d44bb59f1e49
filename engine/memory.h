#pragma once

#include <cstdint>
#include <string>

namespace quire {

// Memory that could be taken now without swapping: MemAvailable, within the cgroup's limit. Bytes.
std::uint64_t free_memory_bytes();

// "93.8 MiB": binary units, one decimal.
std::string readable_bytes(double bytes);

}  // namespace quire
