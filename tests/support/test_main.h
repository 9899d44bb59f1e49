#pragma once

#include <QCoreApplication>
#include <QObject>
#include <QtTest>
#include <functional>
#include <string>

namespace quire::test {

// Adds a test class to this executable. `unit` is the source file's stem (tst_block_manager): the
// first command-line argument selects a unit, further ones go to Qt Test.
struct Registration {
  Registration(const char* source_file, std::function<QObject*()> make);
};

// Folder with the large test files (QUIRE_TEST_DATA). Unset: `path` is empty and the test should
// skip, saying so. Set but without `needed`: the test must fail.
struct TestData {
  std::string path;
  bool missing = false;
};
TestData test_data(const std::string& needed);

// For the window's tests: makes a QApplication instead of a QCoreApplication. Call from a static
// initialiser.
void set_application_factory(std::function<QCoreApplication*(int&, char**)> factory);

// Path of a committed fixture, from tests/.
std::string fixture(const std::string& relative_path);

}  // namespace quire::test

#define QUIRE_TEST(Class)                                  \
  static const quire::test::Registration register_##Class( \
      __FILE__, [] { return static_cast<QObject*>(new Class); });
