#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/result.h"
#include "kernels/backend.h"

namespace quire {

// A stored tensor. Dimensions are outermost first (rows, cols for a matrix; GGUF's own order
// reversed).
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;  // mapped memory of the source
  std::size_t bytes = 0;
};

// Named tensors of a GGUF set or a safetensors folder, all extents checked. Keeps its files mapped.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const TensorInfo* find(std::string_view name) const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;  // in file order
  virtual std::size_t total_bytes() const = 0;                 // of all tensors together
  // Fails when a file shrank or could not be read since it was opened. Reading tensor data never
  // crashes, but what was read is then meaningless: ask once after packing, and discard on failure.
  virtual Status check_intact() const { return Ok{}; }
  // Takes the tensor's stored bytes out of this process's resident memory, where they are a file's;
  // reading them again brings them back. Any thread.
  virtual void release(const TensorInfo&) const {}
};

}  // namespace quire
