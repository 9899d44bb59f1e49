#pragma once

#include <vector>

#include "engine/formats/weight_source.h"
#include "engine/model/architecture.h"
#include "engine/model/config.h"
#include "engine/result.h"

namespace quire {

// Where each weight of one layer lies in a source; null = the architecture has none.
struct LayerTensors {
  const TensorInfo *attn_norm = nullptr, *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr;
  const TensorInfo *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *o_bias = nullptr;
  const TensorInfo *q_norm = nullptr, *k_norm = nullptr;
  const TensorInfo *ffn_norm = nullptr, *gate = nullptr, *up = nullptr, *down = nullptr;
};

struct ModelTensors {
  const WeightSource* source = nullptr;
  const TensorInfo *embed = nullptr, *output_norm = nullptr;
  const TensorInfo* lm_head = nullptr;  // null: tied to embed
  std::vector<LayerTensors> layers;
};

// Finds every weight the config calls for and checks its shape. A missing or misshapen tensor is
// kBadModelFile naming it; one the forward would not use is kUnsupportedModel naming it, because
// leaving it out would compute another model.
Result<ModelTensors> locate_tensors(const ModelConfig& config, const WeightSource& source,
                                    const TensorNames& names);

// Elements of all weights; a tied matrix counts once.
std::int64_t count_parameters(const ModelTensors& tensors);
// The type that holds most elements of the layers' matrices.
DType common_dtype(const ModelTensors& tensors);

}  // namespace quire
