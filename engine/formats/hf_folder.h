#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/weight_source.h"
#include "engine/result.h"

namespace quire {

// A Hugging Face model folder: config.json, (sharded) safetensors, tokenizer files. Names in index
// files may not leave the folder. Immutable after open; any thread.
class HfFolder : public WeightSource {
 public:
  static Result<std::unique_ptr<HfFolder>> open(const std::string& folder);
  virtual const std::string& config_json() const = 0;
  virtual const std::string& tokenizer_json() const = 0;         // "" when the file is missing
  virtual const std::string& tokenizer_config_json() const = 0;  // "" when the file is missing
  virtual const std::string& chat_template()
      const = 0;  // chat_template.jinja; "" when the file is missing
};

// One safetensors file's tensors, checked. What HfFolder and the fuzzer use. `bytes` must outlive
// the result.
Result<std::vector<TensorInfo>> parse_safetensors(std::string_view bytes);

}  // namespace quire
