#include "engine/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

namespace quire {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kNoLimit;  // "max" does not parse: no limit
}

// The unified (v2) hierarchy: the path after "0::" in /proc/self/cgroup.
std::string cgroup_folder() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  }
  return {};
}

}  // namespace

std::uint64_t free_memory_bytes() {
  std::uint64_t available = 0;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    if (key == "MemAvailable:") {
      meminfo >> available;
      available *= 1024;
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (const std::string folder = cgroup_folder(); !folder.empty()) {
    const std::uint64_t limit = read_number(folder + "/memory.max");
    const std::uint64_t used = read_number(folder + "/memory.current");
    if (limit != kNoLimit && used != kNoLimit)
      available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    std::uint64_t* const target = key == "VmRSS:"   ? &memory.resident_bytes
                                  : key == "VmHWM:" ? &memory.peak_bytes
                                                    : nullptr;
    if (target != nullptr && status >> *target) *target *= 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return memory;
}

std::string readable_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return text;
}

}  // namespace quire
