#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/formats/page_guard.h"
#include "engine/result.h"

namespace quire {

// A regular, non-empty file mapped read-only. Immutable; any thread. The file may change under the
// mapping: bytes() then reads zeros past its new end (see PageGuard) and check_intact() fails.
class MappedFile {
 public:
  // Errors, each its own sentence: no such file, a folder, no permission, empty, not a regular
  // file, no address space left, an I/O error.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  const std::string& label() const { return label_; }  // the quoted file name, for messages
  // Fails when the file shrank or one of its pages could not be read since it was opened.
  Status check_intact() const;
  // Takes the pages that hold [begin, begin + size) out of this process's resident memory; reading
  // them again brings them back from the file. Does nothing for a range that lies elsewhere.
  void release(const void* begin, std::size_t size) const;

 private:
  MappedFile(std::string path, int descriptor, const char* data, std::size_t size);

  std::string path_, label_;
  int descriptor_;
  const char* data_;
  std::size_t size_;
  std::optional<PageGuard> guard_;
};

}  // namespace quire
