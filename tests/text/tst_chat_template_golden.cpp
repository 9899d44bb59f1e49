#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/text/chat_template.h"
#include "tests/support/test_main.h"

using namespace quire;
using Json = nlohmann::ordered_json;

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

Json read_fixture(const std::string& name) {
  return Json::parse(read_file(test::fixture("text/data/" + name)));
}

Result<RenderedPrompt> render(const std::string& source, const Json& messages,
                              const ChatTemplateOptions& options) {
  QUIRE_TRY(const auto compiled, compile_chat_template(source));
  return compiled->render_json(messages.dump(), options);
}

// What differs from jinja2, in words; empty when nothing does.
std::string difference(const std::string& what, const Json& expected,
                       const Result<RenderedPrompt>& got) {
  if (expected.is_null()) {
    return got.ok() ? what + "\n  jinja2 refuses, we made: " + got->text : "";
  }
  if (!got.ok()) return what + "\n  we refuse: " + got.error().message;
  const std::string want = expected.get<std::string>();
  return got->text == want ? "" : what + "\n  jinja2: " + want + "\n  ours:   " + got->text;
}

bool is_template_byte(const RenderedPrompt& prompt, std::size_t position) {
  for (const ByteRange& range : prompt.template_ranges) {
    if (position >= range.begin && position < range.end) return true;
  }
  return false;
}

}  // namespace

// Against files written by tests/tools/make_template_golden.py with Python's jinja2.
class TestChatTemplateGolden : public QObject {
  Q_OBJECT

 private slots:
  void smallTemplatesRenderAsInJinja2();
  void randomTemplatesRenderAsInJinja2AndKnowTheOriginOfEveryByte();
  void modelTemplatesRenderAsInJinja2_data();
  void modelTemplatesRenderAsInJinja2();
};

void TestChatTemplateGolden::smallTemplatesRenderAsInJinja2() {
  const Json fixture = read_fixture("template_snippets.json");
  ChatTemplateOptions options;
  options.extra_variables_json = fixture["variables"].dump();
  options.now_s = fixture["now_s"].get<double>();
  std::string failures;
  for (const Json& snippet : fixture["snippets"]) {
    const auto source = snippet["template"].get<std::string>();
    const std::string failure =
        difference(source, snippet["output"], render(source, Json::array(), options));
    if (!failure.empty()) failures += failure + "\n";
  }
  QVERIFY(fixture["snippets"].size() > 250);
  QVERIFY2(failures.empty(), failures.c_str());
}

void TestChatTemplateGolden::randomTemplatesRenderAsInJinja2AndKnowTheOriginOfEveryByte() {
  const Json fixture = read_fixture("template_random.json");
  std::string failures;
  for (const Json& entry : fixture["cases"]) {
    const auto source = entry["template"].get<std::string>();
    const auto prompt = render(source, fixture["messages"], {});
    const std::string failure = difference(source, entry["output"], prompt);
    if (!failure.empty()) failures += failure + "\n";
    if (!prompt.ok()) continue;
    for (std::size_t i = 0; i < prompt->text.size(); ++i) {
      const char c = prompt->text[i];
      const bool greek = (c & 0x80) != 0, latin = c >= 'A' && c <= 'Z';
      const bool from_template = is_template_byte(*prompt, i);
      if ((greek && from_template) || (latin && !from_template)) {
        failures += "wrong origin at byte " + std::to_string(i) + " of " + source + "\n";
        break;
      }
    }
  }
  QVERIFY(fixture["cases"].size() > 100);
  QVERIFY2(failures.empty(), failures.c_str());
}

void TestChatTemplateGolden::modelTemplatesRenderAsInJinja2_data() {
  QTest::addColumn<QString>("model");
  for (const char* model : {"smollm2", "qwen3", "llama3_1", "gemma3", "deepseek_v3"}) {
    QTest::newRow(model) << model;
  }
}

void TestChatTemplateGolden::modelTemplatesRenderAsInJinja2() {
  QFETCH(QString, model);
  const std::string name = model.toStdString();
  std::string source = read_file(test::fixture("text/data/smollm2_template.jinja"));
  if (name != "smollm2") {
    const auto data = test::test_data("tokenizers/" + name + "/tokenizer_config.json");
    if (data.path.empty()) QSKIP("QUIRE_TEST_DATA is not set: it holds this model's template");
    QVERIFY2(!data.missing, data.path.c_str());
    source = Json::parse(read_file(data.path))["chat_template"].get<std::string>();
  }
  const Json fixture = read_fixture("template_golden.json");
  std::string failures;
  int cases = 0;
  for (const Json& entry : fixture["models"]) {
    if (entry["name"] != name) continue;
    for (const Json& golden : entry["cases"]) {
      const auto conversation = golden["conversation"].get<std::string>();
      const auto variant = golden["variant"].get<std::string>();
      Json extra = fixture["variants"][variant];
      ChatTemplateOptions options;
      options.add_generation_prompt = extra.value("add_generation_prompt", true);
      extra.erase("add_generation_prompt");
      options.extra_variables_json = extra.dump();
      options.bos_token = entry["bos_token"].get<std::string>();
      options.eos_token = entry["eos_token"].get<std::string>();
      const auto prompt = render(source, fixture["conversations"][conversation], options);
      const std::string what = name + ": " + conversation + ", " + variant;
      const std::string failure = difference(what, golden["output"], prompt);
      if (!failure.empty()) failures += failure + "\n";
      ++cases;
    }
  }
  QVERIFY(cases >= 40);
  QVERIFY2(failures.empty(), failures.c_str());
}

QUIRE_TEST(TestChatTemplateGolden)
#include "tst_chat_template_golden.moc"
