#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/model/read_config.h"
#include "engine/model/rope.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_main.h"

using namespace quire;
using Json = nlohmann::json;

namespace {

Json llama_json() {
  return Json{{"model_type", "llama"},
              {"architectures", {"LlamaForCausalLM"}},
              {"vocab_size", 64},
              {"hidden_size", 32},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"intermediate_size", 48},
              {"max_position_embeddings", 128},
              {"rms_norm_eps", 1e-5}};
}

Result<ModelConfig> read(const Json& json) {
  return config_from_json(json.dump());
}

Result<ModelConfig> read_patched(const char* patch) {
  Json json = llama_json();
  json.merge_patch(Json::parse(patch));
  return read(json);
}

test::GgufWriter llama_gguf(const std::string& without = "") {
  test::GgufWriter writer;
  writer.set("general.architecture", "llama");
  auto put = [&](const char* key, auto value) {
    if (without != key) writer.set(std::string("llama.") + key, value);
  };
  put("block_count", 2u);
  put("context_length", 128u);
  put("embedding_length", 32u);
  put("feed_forward_length", 48u);
  put("attention.head_count", 4u);
  put("attention.head_count_kv", 2u);
  put("attention.layer_norm_rms_epsilon", 1e-5f);
  return writer;
}

Result<ModelConfig> read(test::GgufWriter& writer) {
  const std::string embed(64 * 32 * 4, '\0');
  writer.add_tensor("token_embd.weight", 0, {32, 64}, embed);
  const std::string bytes = writer.finish();
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  auto file = GgufFile::parse({reinterpret_cast<const char*>(aligned.data()), bytes.size()});
  if (!file.ok()) return file.error();
  return config_from_gguf(**file);
}

}  // namespace

class TestReadConfig : public QObject {
  Q_OBJECT
 private slots:
  void jsonGivesTheShape() {
    const auto config = read(llama_json());
    QVERIFY2(config.ok(), config.ok() ? "" : config.error().message.c_str());
    QCOMPARE(config->head_dim, 8);
    QCOMPARE(config->num_kv_heads, 2);
    QVERIFY(!config->rope_interleaved && !config->qk_norm && !config->qkv_bias);
    QVERIFY(!config->tied_embeddings);
    QCOMPARE(config->rope_inv_freq.size(), std::size_t{4});
    QCOMPARE(config->rope_inv_freq[0], 1.0f);
  }

  void bothSpellingsOfRopeAgree() {
    const auto old = read_patched(R"({"rope_theta": 500000.0, "rope_scaling": {"type": "linear",
                                      "factor": 2.0}})");
    const auto now = read_patched(R"({"rope_parameters": {"rope_theta": 500000.0,
                                      "rope_type": "linear", "factor": 2.0}})");
    QVERIFY(old.ok() && now.ok());
    QCOMPARE(old->rope_inv_freq, now->rope_inv_freq);
    QCOMPARE(old->rope_inv_freq[0], 0.5f);
  }

  void llama3ScalingKeepsShortDividesLongAndBlendsBetween() {
    const RopeScaling scaling{RopeScaling::Kind::kLlama3, 8, 1, 4, 64};
    const auto plain = rope_inv_freq(8, 10000, {});
    const auto scaled = rope_inv_freq(8, 10000, scaling);
    QCOMPARE(scaled[0], plain[0]);                              // wavelength 6.3 < 64 / 4
    QCOMPARE(scaled[3], plain[3] / 8.0f);                       // wavelength 6283 > 64
    QVERIFY(scaled[1] < plain[1] && scaled[1] > plain[1] / 8);  // wavelength 62.8
  }

  void qwen3DefaultsToHeadsOf128() {
    Json json = llama_json();
    json["model_type"] = "qwen3";
    json["architectures"] = {"Qwen3ForCausalLM"};
    const auto config = read(json);
    QVERIFY(config.ok());
    QCOMPARE(config->head_dim, 128);
    QVERIFY(config->qk_norm);
  }

  void windowsThatNeverApplyAreAccepted_data() {
    QTest::addColumn<QString>("patch");
    QTest::newRow("off") << R"({"use_sliding_window": false, "sliding_window": 16})";
    QTest::newRow("null") << R"({"sliding_window": null})";
    QTest::newRow("as long as the context") << R"({"sliding_window": 128})";
    QTest::newRow("above all layers")
        << R"({"use_sliding_window": true, "sliding_window": 16, "max_window_layers": 2})";
    QTest::newRow("all full")
        << R"({"sliding_window": 16, "layer_types": ["full_attention", "full_attention"]})";
  }
  void windowsThatNeverApplyAreAccepted() {
    QFETCH(QString, patch);
    const auto config = read_patched(patch.toUtf8().constData());
    QVERIFY2(config.ok(), config.ok() ? "" : config.error().message.c_str());
  }

  void refusesJson_data() {
    QTest::addColumn<QString>("patch");
    QTest::addColumn<QString>("named");
    auto row = [](const char* patch, const char* named) {
      QTest::newRow(named) << QString(patch) << QString(named);
    };
    row(R"({"model_type": "mistral"})", "'mistral'");
    row(R"({"architectures": ["LlamaForSequenceClassification"]})", "LlamaForSequenceClass");
    row(R"({"use_sliding_window": true, "sliding_window": 16})", "sliding_window 16");
    row(R"({"layer_types": ["full_attention", "sliding_attention"]})", "layer_types");
    row(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2}})", "'yarn'");
    row(R"({"rope_scaling": {"type": "dynamic", "factor": 2}})", "'dynamic'");
    row(R"({"rope_parameters": {"rope_type": "longrope"}})", "'longrope'");
    row(R"({"rope_scaling": {"type": "linear"}})", "scaling factor");
    row(R"({"rope_parameters": {"full_attention": {"rope_type": "default"}}})", "per layer type");
    row(R"({"partial_rotary_factor": 0.5})", "partial_rotary_factor");
    row(R"({"quantization_config": {"quant_method": "awq"}})", "'awq'");
    row(R"({"hidden_act": "relu"})", "'relu'");
    row(R"({"mlp_bias": true})", "mlp_bias");
    row(R"({"num_local_experts": 8})", "num_local_experts");
    row(R"({"vocab_size": 0})", "vocab_size is 0");
    row(R"({"vocab_size": 18446744073709551615})", "vocab_size");
    row(R"({"hidden_size": -1})", "hidden_size is -1");
    row(R"({"hidden_size": "many"})", "hidden_size must be a whole number");
    row(R"({"hidden_size": 33})", "not a multiple");
    row(R"({"num_hidden_layers": 1000000})", "num_hidden_layers");
    row(R"({"num_attention_heads": null})", "num_attention_heads");
    row(R"({"num_key_value_heads": 3})", "3 key/value heads");
    row(R"({"head_dim": 7})", "rotates 7");
    row(R"({"rms_norm_eps": 0})", "epsilon");
    row(R"({"rope_theta": 0})", "rope_theta");
    row(R"({"rope_scaling": [1]})", "must be an object");
  }
  void refusesJson() {
    QFETCH(QString, patch);
    QFETCH(QString, named);
    const auto config = read_patched(patch.toUtf8().constData());
    QVERIFY(!config.ok());
    QVERIFY2(QString::fromStdString(config.error().message).contains(named),
             config.error().message.c_str());
  }

  void refusesWhatIsNoJsonObject() {
    for (const char* text : {"", "[]", "{", "null", "{\"model_type\": 3}"})
      QVERIFY(!config_from_json(text).ok());
  }

  void ggufGivesTheShape() {
    auto writer = llama_gguf();
    const auto config = read(writer);
    QVERIFY2(config.ok(), config.ok() ? "" : config.error().message.c_str());
    QCOMPARE(config->vocab_size, 64);
    QCOMPARE(config->head_dim, 8);
    QVERIFY(config->rope_interleaved && config->tied_embeddings);
  }

  void ggufKeyLengthFreesHeadDimFromTheWidth() {
    auto writer = llama_gguf();
    writer.set("llama.attention.key_length", 16u).set("llama.attention.value_length", 16u);
    const auto config = read(writer);
    QVERIFY(config.ok());
    QCOMPARE(config->head_dim, 16);
  }

  void refusesGguf_data() {
    QTest::addColumn<QString>("key");
    QTest::addColumn<QVariant>("value");
    QTest::addColumn<QString>("named");
    auto row = [](const char* key, const QVariant& value, const char* named) {
      QTest::newRow(key) << QString(key) << value << QString(named);
    };
    row("llama.expert_count", 8, "llama.expert_count");
    row("llama.attention.sliding_window", 16, "sliding-window");
    row("llama.rope.scaling.type", "yarn", "'yarn'");
    row("llama.attention.key_length", 2000, "key_length is 2000");
    row("llama.attention.value_length", 4, "keys and values differ");
    row("llama.rope.dimension_count", 10, "rotates 10");
    row("llama.rope.freq_base", 0.0, "rope_theta");
    row("llama.logit_scale", 0.5, "llama.logit_scale");
  }
  void refusesGguf() {
    QFETCH(QString, key);
    QFETCH(QVariant, value);
    QFETCH(QString, named);
    auto writer = llama_gguf();
    const std::string name = key.toStdString();
    if (value.userType() == QMetaType::Int) writer.set(name, value.toInt());
    if (value.userType() == QMetaType::Double) writer.set(name, value.toDouble());
    if (value.userType() == QMetaType::QString) writer.set(name, value.toString().toStdString());
    const auto config = read(writer);
    QVERIFY(!config.ok());
    QVERIFY2(QString::fromStdString(config.error().message).contains(named),
             config.error().message.c_str());
  }

  void missingGgufKeysAreNamed() {
    for (const char* key : {"block_count", "context_length", "embedding_length",
                            "feed_forward_length", "attention.head_count"}) {
      auto writer = llama_gguf(key);
      const auto config = read(writer);
      QVERIFY(!config.ok());
      QVERIFY2(config.error().message.find(key) != std::string::npos,
               config.error().message.c_str());
    }
  }

  void unknownGgufArchitectureIsNamed() {
    test::GgufWriter writer;
    writer.set("general.architecture", "mamba");
    const auto config = read(writer);
    QVERIFY(!config.ok());
    QCOMPARE(config.error().code, ErrorCode::kUnsupportedModel);
    QVERIFY(config.error().message.find("'mamba'") != std::string::npos);
  }

  void perLayerSizesMustAgree() {
    auto same = llama_gguf("feed_forward_length");
    same.set("llama.feed_forward_length", std::vector<std::uint32_t>{48, 48});
    const auto config = read(same);
    QVERIFY(config.ok());
    QCOMPARE(config->ffn_size, 48);
    auto different = llama_gguf("feed_forward_length");
    different.set("llama.feed_forward_length", std::vector<std::uint32_t>{48, 64});
    QVERIFY(!read(different).ok());
  }
};

QUIRE_TEST(TestReadConfig)
#include "tst_read_config.moc"
