#include "engine/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "engine/formats/gguf.h"
#include "engine/formats/gguf_split.h"
#include "engine/formats/hf_folder.h"
#include "engine/formats/messages.h"
#include "engine/paths.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Bounds on a walk through folders a person named, which may be a whole disk or link to itself.
constexpr int kMaxDepth = 3;
constexpr int kMaxVisited = 20'000;

// A model as the folders show it, before its header is read.
struct Found {
  std::string name;
  std::string path;  // the GGUF file (of a set: the first part present), or the folder
  bool folder = false;
};

bool is_gguf(const fs::path& path) {
  return path.extension() == ".gguf";
}

bool is_hf_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "config.json", error) &&
         (fs::is_regular_file(path / "model.safetensors", error) ||
          fs::is_regular_file(path / "model.safetensors.index.json", error));
}

// The stem of a GGUF file or set, the name of a folder.
std::string name_of(const fs::path& path, bool folder) {
  if (folder) return (path.has_filename() ? path : path.parent_path()).filename().string();
  const auto split = parse_split_name(path.filename().string());
  return split ? split->prefix : path.stem().string();
}

class Walk {
 public:
  void visit(const fs::path& folder, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || !seen_.insert(real.string()).second) return;
    if (is_hf_folder(folder)) return add(folder, true);
    fs::directory_iterator entries(folder, fs::directory_options::skip_permission_denied, error);
    std::vector<fs::path> paths;
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
      if (++visited_ > kMaxVisited) break;
      paths.push_back(entries->path());
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      if (path.filename().string().front() == '.') continue;
      if (fs::is_directory(path, error)) {
        if (depth < kMaxDepth) visit(path, depth + 1);
      } else if (is_gguf(path) && fs::is_regular_file(path, error)) {
        add_file(path);
      }
    }
  }

  std::vector<Found> take() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.name < b.name; });
    return std::move(found_);
  }

 private:
  void add_file(const fs::path& path) {
    const auto split = parse_split_name(path.string());
    if (split && !sets_.insert(fmt::format("{}/{}", split->prefix, split->count)).second) return;
    add(path, false);
  }

  // Names are what a person types, so a second model of the same name gets a number.
  void add(const fs::path& path, bool folder) {
    const std::string plain = name_of(path, folder);
    std::string name = plain;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}-{}", plain, i);
    found_.push_back({name, path.string(), folder});
  }

  std::vector<Found> found_;
  std::set<std::string> seen_, sets_, names_;
  int visited_ = 0;
};

std::vector<Found> find_models(const std::vector<std::string>& extra_folders) {
  Walk walk;
  walk.visit(models_dir(), 0);
  for (const std::string& folder : extra_folders) walk.visit(folder, 0);
  return walk.take();
}

std::string most_common_type(const WeightSource& source) {
  std::array<std::size_t, kNumDTypes> bytes{};
  for (const TensorInfo& tensor : source.tensors())
    bytes[static_cast<std::size_t>(tensor.dtype)] += tensor.bytes;
  const auto most = std::max_element(bytes.begin(), bytes.end());
  if (*most == 0) return "?";
  return std::string(dtype_info(static_cast<DType>(most - bytes.begin())).name);
}

std::uint64_t size_of_file(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

std::uint64_t size_on_disk(const Found& found) {
  if (!found.folder) {
    const auto split = parse_split_name(found.path);
    if (!split) return size_of_file(found.path);
    std::uint64_t total = 0;
    for (int i = 1; i <= split->count; ++i)
      total += size_of_file(split_file_name(split->prefix, i, split->count));
    return total;
  }
  std::uint64_t total = 0;
  std::error_code error;
  fs::directory_iterator entries(found.path, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error))
    if (entries->path().extension() == ".safetensors") total += size_of_file(entries->path());
  return total;
}

template <typename Source>
void describe(const Result<std::unique_ptr<Source>>& opened, LibraryEntry& entry) {
  entry.type = opened.ok() ? most_common_type(**opened) : "?";
  if (!opened.ok()) entry.note = opened.error().message;
}

}  // namespace

std::vector<LibraryEntry> list_models(const std::vector<std::string>& extra_folders) {
  std::vector<LibraryEntry> entries;
  for (const Found& found : find_models(extra_folders)) {
    LibraryEntry entry{found.name, found.path, size_on_disk(found), "?", ""};
    if (found.folder) {
      describe(HfFolder::open(found.path), entry);
    } else {
      describe(GgufFile::open(found.path), entry);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<ResolvedModel> resolve_model(const std::string& what,
                                    const std::vector<std::string>& extra_folders) {
  if (what == kBuiltinTiny) return ResolvedModel{what, what};
  std::error_code error;
  if (what == "starter") {
    const std::string path = models_dir() + "/" + kStarterFile;
    if (fs::is_regular_file(path, error)) return ResolvedModel{path, name_of(path, false)};
    return make_error(ErrorCode::kModelNotFound,
                      "The starter model has not been fetched yet: run packaging/run, or name "
                      "builtin:tiny or a file instead.");
  }
  const bool plain = !what.empty() && what.find('\0') == std::string::npos;
  if (plain && fs::exists(what, error))
    return ResolvedModel{what, name_of(what, fs::is_directory(what, error))};
  for (const Found& found : find_models(extra_folders))
    if (found.name == what) return ResolvedModel{found.path, found.name};
  if (what.find('/') != std::string::npos)
    return make_error(ErrorCode::kModelNotFound,
                      fmt::format("{} does not exist.", in_quotes(what)));
  return make_error(ErrorCode::kModelNotFound,
                    fmt::format("There is no file and no library model named {}; 'quire models' "
                                "lists the library.",
                                in_quotes(what)));
}

}  // namespace quire
