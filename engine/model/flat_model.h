#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/model/model.h"
#include "engine/model/tensors.h"

namespace quire {

// Called before each layer is packed, with the bytes of the source read so far; false cancels.
using PackProgress = std::function<bool(std::size_t bytes_done, std::string_view what)>;

// Packs the located weights for the backend, releasing each tensor's source behind it, so that
// loading never holds a model twice. kCancelled, or kOutOfMemory, with everything packed so
// far given back. The tensors' memory must outlive the model.
Result<std::unique_ptr<FlatModel>> make_flat_model(const ModelConfig& config,
                                                   const ModelTensors& tensors, Backend& backend,
                                                   const PackProgress& progress);

}  // namespace quire
