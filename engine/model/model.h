#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/formats/weight_source.h"
#include "engine/model/config.h"
#include "engine/result.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"
#include "kernels/backend.h"

namespace quire {

// The flat forward pass over one backend: all [num_tokens, hidden] rows of a step at once. Owns
// packed weights and activation buffers. One thread at a time.
class FlatModel {
 public:
  virtual ~FlatModel() = default;
  virtual const ModelConfig& config() const = 0;
  virtual Backend& backend() const = 0;
  virtual std::size_t weight_bytes() const = 0;
  virtual std::size_t buffer_bytes() const = 0;  // of the activation buffers
  // Must be called before the first forward; grows the activation buffers.
  virtual void reserve(int max_num_tokens) = 0;
  // Runs the step and makes what `rows` ask for. Polls `cancel` between layers and returns false,
  // with what was asked for unspecified, once it is set.
  virtual bool forward(const BatchView& batch, KvPool& pool, const HeadRows& rows,
                       const std::atomic<bool>& cancel) = 0;
  // All logits, [logits_rows.size(), vocab].
  bool forward_logits(const BatchView& batch, KvPool& pool,
                      std::span<const std::int32_t> logits_rows, std::span<float> logits,
                      const std::atomic<bool>& cancel);
};

// What a file, folder or built-in name gives once loaded.
struct LoadedWeights {
  std::string name;                      // for people: "SmolLM2 135M Instruct", or the file's stem
  std::string description;               // "llama, 135 M parameters, Q4_1"
  std::string path;                      // what was opened; "builtin:tiny" for the built-in
  std::unique_ptr<WeightSource> source;  // keeps the memory the matrices point into
  std::unique_ptr<FlatModel> model;      // declared after source: destroyed first
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
  // Why chat_template is the default one although the model is not the built-in ("" = it is the
  // model's own): it has none, or its own does not compile.
  std::string template_note;
  std::int64_t num_parameters = 0;
  std::string dtype_name;  // the most common weight type
};

struct LoadProgress {
  std::size_t bytes_done = 0, bytes_total = 0;
  std::string what;  // "packing blk.3"
};

// Called on the loading thread; return false to cancel (kCancelled, memory given back).
using ProgressCallback = std::function<bool(const LoadProgress&)>;

// `path`: a GGUF file (any shard of a set), a Hugging Face folder, or "builtin:tiny". The backend
// must outlive the result. Unknown architecture, type or tokenizer: kUnsupportedModel naming it.
Result<LoadedWeights> load_model(const std::string& path, Backend& backend,
                                 const ProgressCallback& progress);

// What a file is, without loading it: for `quire inspect`, the picker and fit estimates.
struct ModelSummary {
  std::string name, format, architecture, dtype_name, tokenizer, chat_template_source;
  ModelConfig config;
  std::int64_t num_parameters = 0;
  std::size_t file_bytes = 0;
};
Result<ModelSummary> inspect_model(const std::string& path);

}  // namespace quire
