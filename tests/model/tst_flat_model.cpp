#include <algorithm>
#include <set>

#include "engine/model/flat_model.h"
#include "tests/model/hooked_backend.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

// The tiny weights with one tensor missing, misshapen or added.
class PatchedSource : public WeightSource {
 public:
  explicit PatchedSource(const WeightSource& base) : tensors_(base.tensors()) {}
  std::vector<TensorInfo>& edit() { return tensors_; }
  TensorInfo& edit(std::string_view name) {
    return *std::ranges::find(tensors_, name, &TensorInfo::name);
  }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = std::ranges::find(tensors_, name, &TensorInfo::name);
    return it == tensors_.end() ? nullptr : &*it;
  }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::size_t total_bytes() const override { return 0; }

 private:
  std::vector<TensorInfo> tensors_;
};

template <typename Check>
Result<ModelTensors> locate_patched(Check patch) {
  static const auto base = make_builtin_tiny_weights();
  PatchedSource source(*base);
  patch(source);
  return locate_tensors(builtin_tiny_config(), source, hf_tensor_names());
}

}  // namespace

class TestFlatModel : public QObject {
  Q_OBJECT
 private slots:
  void tinyAnswersAreSpreadAndRepeatable() {
    auto tiny = test::make_tiny(make_reference_backend());
    std::vector<std::int32_t> tokens{'H', 'e', 'l', 'l', 'o'};
    std::set<std::int32_t> distinct;
    for (int i = 0; i < 60; ++i) {
      const auto last = static_cast<std::int32_t>(tokens.size()) - 1;
      const auto logits = test::prompt_logits(*tiny.model, tokens, {last}, 16);
      tokens.push_back(
          static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
      distinct.insert(tokens.back());
    }
    QVERIFY2(distinct.size() >= 10, std::to_string(distinct.size()).c_str());
    auto again = test::make_tiny(make_reference_backend());
    QCOMPARE(test::prompt_logits(*again.model, tokens, {10, 64}, 16),
             test::prompt_logits(*tiny.model, tokens, {10, 64}, 16));
  }

  void cancelIsSeenWithinHalfALayer_data() {
    QTest::addColumn<int>("at");  // the operation during which cancel is set
    for (const int at : {0, 1, 3, 5, 8, 11, 12}) QTest::addRow("%d", at) << at;
  }
  void cancelIsSeenWithinHalfALayer() {
    QFETCH(int, at);
    std::atomic<bool> cancel{false};
    int operations = 0;
    auto tiny = test::make_tiny(
        std::make_unique<test::HookedBackend>(make_reference_backend(), [&](const char* operation) {
          if (std::string_view(operation).starts_with("pack") ||
              std::string_view(operation).starts_with("allocate"))
            return;
          if (operations++ == at) cancel = true;
        }));
    const auto pool = tiny.backend->allocate_kv(tiny.model->config().kv_spec(), 1, 16);
    const std::int32_t id = 1, position = 0, starts[] = {0, 1}, table = 0, row = 0;
    const std::int64_t slot = 0;
    const BatchView batch{1, 1, &id, &position, &slot, starts, &starts[1], &table, 1};
    std::vector<float> logits(260);
    tiny.model->reserve(1);
    QVERIFY(!tiny.model->forward_logits(batch, *pool, {&row, 1}, logits, cancel));
    QVERIFY2(operations - at <= 4, std::to_string(operations).c_str());
    cancel = false;
    operations = -100;
    QVERIFY(tiny.model->forward_logits(batch, *pool, {&row, 1}, logits, cancel));
    QCOMPARE(operations, -100 + 1 + 2 * 6 + 1);
  }

  void memoryThatRunsOutWhilePackingIsAnError() {
    const auto source = make_builtin_tiny_weights();
    const ModelConfig config = builtin_tiny_config();
    const auto tensors = locate_tensors(config, *source, hf_tensor_names());
    for (int fail_at = 0; fail_at < 10; ++fail_at) {
      int packed = 0;
      test::HookedBackend backend(make_reference_backend(), [&](const char*) {
        if (packed++ == fail_at) throw std::bad_alloc();
      });
      const auto model = make_flat_model(config, *tensors, backend, {});
      QVERIFY(!model.ok());
      QCOMPARE(model.error().code, ErrorCode::kOutOfMemory);
    }
  }

  void loadingReportsProgressAndStopsWhenTold() {
    const auto source = make_builtin_tiny_weights();
    const auto backend = make_reference_backend();
    const ModelConfig config = builtin_tiny_config();
    const auto tensors = locate_tensors(config, *source, hf_tensor_names());
    std::size_t last = 0;
    int calls = 0;
    auto watch = [&](std::size_t done, std::string_view) {
      if (done < last) return false;
      last = done;
      ++calls;
      return true;
    };
    QVERIFY(make_flat_model(config, *tensors, *backend, watch).ok());
    QCOMPARE(last, source->total_bytes());
    for (int stop_at = 0; stop_at < calls; ++stop_at) {
      int call = 0;
      const auto stopped =
          make_flat_model(config, *tensors, *backend,
                          [&](std::size_t, std::string_view) { return call++ < stop_at; });
      QVERIFY(!stopped.ok());
      QCOMPARE(stopped.error().code, ErrorCode::kCancelled);
    }
  }

  void wrongTensorsAreNamed() {
    const std::string q = "model.layers.1.self_attn.q_proj.weight";
    const auto missing = locate_patched([&](auto& s) { s.edit(q).name = "lm_head.bias"; });
    QVERIFY(!missing.ok());
    QCOMPARE(missing.error().message, "The model lacks the tensor " + q + ".");
    const auto misshapen = locate_patched([&](auto& s) { s.edit(q).shape = {64, 32}; });
    QVERIFY(!misshapen.ok());
    QVERIFY(misshapen.error().message.find(q + " has shape [64, 32]") != std::string::npos);
    const auto extra = locate_patched([&](auto& s) {
      TensorInfo tensor = s.edit(q);
      tensor.name = "model.layers.1.mlp.experts.0.up.weight";
      s.edit().push_back(tensor);
    });
    QVERIFY(!extra.ok());
    QCOMPARE(extra.error().code, ErrorCode::kUnsupportedModel);
    QVERIFY(extra.error().message.find("experts.0.up.weight") != std::string::npos);
    const auto short_data = locate_patched([&](auto& s) { s.edit(q).bytes -= 1; });
    QVERIFY(!short_data.ok());
  }

  void parametersAndTypeAreCounted() {
    const auto source = make_builtin_tiny_weights();
    const auto tensors = locate_tensors(builtin_tiny_config(), *source, hf_tensor_names());
    QCOMPARE(count_parameters(*tensors),
             static_cast<std::int64_t>(source->total_bytes() / sizeof(float)));
    QCOMPARE(common_dtype(*tensors), DType::kF32);
  }
};

QUIRE_TEST(TestFlatModel)
#include "tst_flat_model.moc"
