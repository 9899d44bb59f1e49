// safetensors headers: parsing never crashes, and what it accepts covers the data without overlap.
#include <cstdint>
#include <string_view>

#include "engine/formats/hf_folder.h"
#include "kernels/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensors = quire::parse_safetensors(bytes);
  if (!tensors.ok()) {
    QUIRE_CHECK(!tensors.error().message.empty());
    return 0;
  }
  const std::uint8_t* last = data;
  for (const quire::TensorInfo& tensor : *tensors) {
    const auto* begin = static_cast<const std::uint8_t*>(tensor.data);
    QUIRE_CHECK(begin >= last && begin + tensor.bytes <= data + size, tensor.bytes, size);
    last = begin + tensor.bytes;
  }
  return 0;
}
