#include "tests/support/test_main.h"

#include <QCoreApplication>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <vector>

namespace quire::test {
namespace {

struct Entry {
  std::string unit;
  std::function<QObject*()> make;
};

std::vector<Entry>& entries() {
  static std::vector<Entry> list;
  return list;
}

std::function<QCoreApplication*(int&, char**)>& application_factory() {
  static std::function<QCoreApplication*(int&, char**)> factory = [](int& argc, char** argv) {
    return new QCoreApplication(argc, argv);
  };
  return factory;
}

}  // namespace

Registration::Registration(const char* source_file, std::function<QObject*()> make) {
  entries().push_back({std::filesystem::path(source_file).stem().string(), std::move(make)});
}

TestData test_data(const std::string& needed) {
  const char* root = std::getenv("QUIRE_TEST_DATA");
  if (root == nullptr || *root == '\0') return {};
  const auto path = std::filesystem::path(root) / needed;
  return {path.string(), !std::filesystem::exists(path)};
}

std::string fixture(const std::string& relative_path) {
  return std::string(QUIRE_SOURCE_DIR) + "/tests/" + relative_path;
}

void set_application_factory(std::function<QCoreApplication*(int&, char**)> factory) {
  application_factory() = std::move(factory);
}

}  // namespace quire::test

int main(int argc, char** argv) {
  using namespace quire::test;
  // A crash ends the run at once instead of waiting for a debugger's account of it.
  qputenv("QTEST_DISABLE_STACK_DUMP", "1");
  std::unique_ptr<QCoreApplication> app(application_factory()(argc, argv));
  std::string unit;
  if (argc > 1 && argv[1][0] != '-') {
    unit = argv[1];
    for (int i = 1; i + 1 < argc; ++i) argv[i] = argv[i + 1];
    --argc;
  }
  int failed = 0, ran = 0;
  for (const auto& entry : entries()) {
    if (!unit.empty() && entry.unit != unit) continue;
    std::unique_ptr<QObject> object(entry.make());
    failed += QTest::qExec(object.get(), argc, argv) != 0;
    ++ran;
  }
  if (ran == 0) {
    std::fprintf(stderr, "no test unit named '%s' in this executable\n", unit.c_str());
    return 1;
  }
  return failed == 0 ? 0 : 1;
}
