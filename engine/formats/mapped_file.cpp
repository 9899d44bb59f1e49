#include "engine/formats/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/formats/messages.h"

namespace quire {
namespace {

Error open_error(const std::string& label, int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return make_error(ErrorCode::kModelNotFound, fmt::format("{} does not exist.", label));
    case EACCES:
    case EPERM:
      return make_error(ErrorCode::kPermissionDenied,
                        fmt::format("You have no permission to read {}.", label));
    case ENOMEM:
      return make_error(ErrorCode::kOutOfMemory,
                        fmt::format("There is not enough memory to open {}.", label));
    default:
      return make_error(ErrorCode::kIo,
                        fmt::format("{} cannot be read: {}.", label, std::strerror(error_number)));
  }
}

Status check_kind(const std::string& label, const struct stat& info) {
  if (S_ISDIR(info.st_mode))
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a folder, not a file.", label));
  if (!S_ISREG(info.st_mode))
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} is a device or pipe, not a file.", label));
  if (info.st_size == 0)
    return make_error(ErrorCode::kBadModelFile, fmt::format("{} is empty.", label));
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const std::string label = quoted_file_name(path);
  if (path.find('\0') != std::string::npos) return open_error(label, ENOENT);
  // Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return open_error(label, errno);
  struct stat info = {};
  Status status =
      fstat(descriptor, &info) == 0 ? check_kind(label, info) : open_error(label, errno);
  if (!status.ok()) {
    close(descriptor);
    return status.error();
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error_number = errno;
    close(descriptor);
    return open_error(label, error_number);
  }
  std::unique_ptr<MappedFile> file(
      new MappedFile(path, descriptor, static_cast<const char*>(data), size));
  if (!file->guard_->armed())
    return make_error(ErrorCode::kIo, fmt::format("{} cannot be opened: {} model files are open "
                                                  "already.",
                                                  label, PageGuard::kMaxGuards));
  return file;
}

MappedFile::MappedFile(std::string path, int descriptor, const char* data, std::size_t size)
    : path_(std::move(path)),
      label_(quoted_file_name(path_)),
      descriptor_(descriptor),
      data_(data),
      size_(size),
      guard_(std::in_place, data, size) {}

MappedFile::~MappedFile() {
  guard_.reset();
  munmap(const_cast<char*>(data_), size_);
  close(descriptor_);
}

Status MappedFile::check_intact() const {
  struct stat info = {};
  if (fstat(descriptor_, &info) != 0) return open_error(label_, errno);
  const auto now = static_cast<std::size_t>(info.st_size);
  if (now < size_)
    return make_error(ErrorCode::kBadModelFile,
                      fmt::format("{} shrank from {} to {} bytes while it was being read; load it "
                                  "again once it is whole.",
                                  label_, size_, now));
  if (guard_->torn())
    return make_error(ErrorCode::kIo,
                      fmt::format("Part of {} could not be read from the disk.", label_));
  return Ok{};
}

void MappedFile::release(const void* begin, std::size_t size) const {
  const auto start = reinterpret_cast<std::uintptr_t>(data_);
  const auto first = reinterpret_cast<std::uintptr_t>(begin);
  if (size == 0 || first < start || first - start > size_ || size > size_ - (first - start)) return;
  // Whole pages, neighbours' shares included: nobody writes here, so they read the same again.
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t from = first / page * page;
  madvise(reinterpret_cast<void*>(from), first + size - from, MADV_DONTNEED);
}

}  // namespace quire
