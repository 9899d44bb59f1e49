#pragma once

#include <QTemporaryDir>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace quire::test {

// A folder of its own for one test's files, removed with it.
class TempFiles {
 public:
  std::string path(const std::string& name) const { return dir_.path().toStdString() + "/" + name; }
  std::string folder() const { return dir_.path().toStdString(); }
  // Returns the file's path. Folders in `name` are made.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string full = path(name);
    std::filesystem::create_directories(std::filesystem::path(full).parent_path());
    std::ofstream(full, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
    return full;
  }

 private:
  QTemporaryDir dir_;
};

}  // namespace quire::test
