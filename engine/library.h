#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/result.h"

namespace quire {

inline constexpr const char* kStarterFile = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kBuiltinTiny = "builtin:tiny";

struct LibraryEntry {
  std::string name;  // what a person or client types: the file's stem or the folder's name
  std::string path;
  std::uint64_t bytes = 0;
  std::string type;  // weight type read from the header ("Q4_1"), "?" when unreadable
  std::string note;  // why it cannot be loaded; empty when it can
};

// Models in models_dir() and in `extra_folders` (read in place): GGUF files (one entry per split
// set) and Hugging Face folders, sorted by name. Unreadable ones are listed with a note.
// builtin:tiny is not listed.
std::vector<LibraryEntry> list_models(const std::vector<std::string>& extra_folders);

struct ResolvedModel {
  std::string path;  // file, folder or "builtin:tiny"
  std::string id;    // the name clients see
};

// `starter` = the fetched starter model, `builtin:tiny` = the built-in one, an existing path =
// that, anything else = a name in the library. A library name is never joined to a path.
Result<ResolvedModel> resolve_model(const std::string& what,
                                    const std::vector<std::string>& extra_folders);

}  // namespace quire
