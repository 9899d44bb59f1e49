#pragma once

#include <sstream>
#include <string>

// Our own bugs only, never input: prints the condition, the values given and the place, then
// aborts.
//   QUIRE_CHECK(begin <= end, begin, end);
#define QUIRE_CHECK(condition, ...)                                                       \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::quire::check_failed(#condition, #__VA_ARGS__, ::quire::check_values(__VA_ARGS__), \
                            __FILE__, __LINE__);                                          \
  } while (false)

namespace quire {

[[noreturn]] void check_failed(const char* condition, const char* names, const std::string& values,
                               const char* file, int line);

inline std::string check_values() {
  return {};
}

template <typename... Values>
std::string check_values(const Values&... values) {
  std::ostringstream out;
  const char* separator = "";
  ((out << separator << values, separator = ", "), ...);
  return out.str();
}

}  // namespace quire
