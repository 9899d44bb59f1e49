#include "kernels/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* condition, const char* names, const std::string& values,
                  const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s", file, line, condition);
  if (!values.empty()) std::fprintf(stderr, " (%s = %s)", names, values.c_str());
  std::fprintf(stderr, "\n");
  std::abort();
}

}  // namespace quire
