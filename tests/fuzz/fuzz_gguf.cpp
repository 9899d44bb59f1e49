// GGUF headers: parsing never crashes, and what it accepts lies inside the input and decodes.
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/formats/gguf.h"
#include "kernels/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto file = quire::GgufFile::parse(bytes);
  if (!file.ok()) {
    QUIRE_CHECK(!file.error().message.empty());
    return 0;
  }
  for (const quire::TensorInfo& tensor : (*file)->tensors()) {
    const auto* begin = static_cast<const std::uint8_t*>(tensor.data);
    QUIRE_CHECK(begin >= data && begin + tensor.bytes <= data + size, tensor.bytes, size);
    QUIRE_CHECK((*file)->find(tensor.name) == &tensor, tensor.name);
    const std::int64_t cols = tensor.shape.back();
    QUIRE_CHECK(quire::row_bytes(tensor.dtype, cols) <= tensor.bytes, tensor.bytes);
    std::vector<float> row(static_cast<std::size_t>(cols));
    quire::dequantize(tensor.dtype, tensor.data, row.data(), cols);
  }
  for (const auto& [key, value] : (*file)->metadata()) (*file)->get_float(key);
  return 0;
}
