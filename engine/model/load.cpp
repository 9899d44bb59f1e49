#include <algorithm>
#include <new>

#include "engine/model/flat_model.h"
#include "engine/model/model.h"
#include "engine/model/open.h"

namespace quire {
namespace {

// The model's own chat template, or the default one and a sentence saying why.
Result<std::unique_ptr<ChatTemplate>> choose_template(const std::string& source,
                                                      std::string& note) {
  if (source.empty()) {
    note = "The model brings no chat template, so a plain one is used.";
  } else {
    auto compiled = compile_chat_template(source);
    if (compiled.ok()) return compiled;
    note = "The model's chat template cannot be used, so a plain one takes its place: " +
           compiled.error().message;
  }
  return compile_chat_template(std::string(default_chat_template()));
}

std::string describe(const ModelConfig& config, std::int64_t num_parameters, DType dtype) {
  return config.architecture + ", " + count_text(num_parameters) + " parameters, " +
         std::string(dtype_info(dtype).name);
}

Result<LoadedWeights> load_checked(const std::string& path, Backend& backend,
                                   const ProgressCallback& progress) {
  LoadProgress state{0, 0, "opening"};
  auto report = [&](std::size_t done, std::string_view what) {
    state.bytes_done = std::min(done, state.bytes_total);
    state.what = what;
    return !progress || progress(state);
  };
  if (!report(0, "opening")) return make_error(ErrorCode::kCancelled, "Loading was cancelled.");
  QUIRE_TRY(OpenedModel opened, open_model(path));
  state.bytes_total = opened.source->total_bytes();
  if (!report(0, "reading the tokenizer"))
    return make_error(ErrorCode::kCancelled, "Loading was cancelled.");

  LoadedWeights loaded;
  loaded.name = std::move(opened.name);
  loaded.path = path;
  QUIRE_TRY(loaded.tokenizer, opened.make_tokenizer());
  QUIRE_TRY(loaded.chat_template, choose_template(opened.chat_template, loaded.template_note));
  QUIRE_TRY(loaded.model, make_flat_model(opened.config, opened.tensors, backend, report));
  QUIRE_RETURN_IF_ERROR(opened.source->check_intact());
  loaded.num_parameters = count_parameters(opened.tensors);
  const DType dtype = common_dtype(opened.tensors);
  loaded.dtype_name = dtype_info(dtype).name;
  loaded.description = describe(opened.config, loaded.num_parameters, dtype);
  loaded.source = std::move(opened.source);
  return loaded;
}

Result<ModelSummary> inspect_checked(const std::string& path) {
  QUIRE_TRY(OpenedModel opened, open_model(path));
  ModelSummary summary;
  summary.name = std::move(opened.name);
  summary.format = std::move(opened.format);
  summary.architecture = opened.config.architecture;
  summary.dtype_name = dtype_info(common_dtype(opened.tensors)).name;
  const auto tokenizer = opened.make_tokenizer();
  summary.tokenizer = tokenizer.ok() ? (*tokenizer)->description() : tokenizer.error().message;
  summary.chat_template_source = std::move(opened.chat_template);
  summary.num_parameters = count_parameters(opened.tensors);
  summary.file_bytes = opened.source->total_bytes();
  summary.config = std::move(opened.config);
  return summary;
}

// Files decide how much is asked for; running out is their error, not ours.
template <typename Load>
auto within_memory(Load load) -> decltype(load()) {
  try {
    return load();
  } catch (const std::bad_alloc&) {
    return make_error(
        ErrorCode::kOutOfMemory,
        "There is not enough memory to open the model; close other programs or choose "
        "a smaller model.");
  }
}

}  // namespace

Result<LoadedWeights> load_model(const std::string& path, Backend& backend,
                                 const ProgressCallback& progress) {
  return within_memory([&] { return load_checked(path, backend, progress); });
}

Result<ModelSummary> inspect_model(const std::string& path) {
  return within_memory([&] { return inspect_checked(path); });
}

}  // namespace quire
