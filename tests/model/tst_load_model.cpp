#include <QTemporaryDir>
#include <filesystem>
#include <fstream>

#include "engine/library.h"
#include "engine/model/open.h"
#include "tests/model/support.h"
#include "tests/support/test_main.h"

using namespace quire;

namespace {

std::string parity(const std::string& name) {
  return test::fixture("model/parity/" + name);
}

std::string message(const Result<LoadedWeights>& loaded) {
  return loaded.ok() ? std::string() : loaded.error().message;
}

// A copy of the qwen3 folder that a test may change.
struct FolderCopy {
  FolderCopy() {
    std::filesystem::copy(parity("qwen3/hf"), path(), std::filesystem::copy_options::recursive);
  }
  std::string path() const { return directory.path().toStdString() + "/model"; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path() + "/" + name) << text;
  }
  QTemporaryDir directory;
};

}  // namespace

class TestLoadModel : public QObject {
  Q_OBJECT
 private slots:
  void builtinTinyNeedsNoFile() {
    const auto backend = make_reference_backend();
    const auto loaded = load_model(kBuiltinTiny, *backend, {});
    QVERIFY2(loaded.ok(), message(loaded).c_str());
    QCOMPARE(loaded->description, "qwen3, 107 k parameters, F32");
    QCOMPARE(loaded->tokenizer->vocab_size(), loaded->model->config().vocab_size);
    QCOMPARE(loaded->tokenizer->eos_id(), 257);
    QVERIFY(loaded->template_note.empty());
    QVERIFY(loaded->chat_template->render({{"user", "Hi", ""}}, {}).ok());
  }

  void folderAndGgufOfOneModelAgree() {
    const auto backend = make_reference_backend();
    const auto folder = load_model(parity("qwen3/hf"), *backend, {});
    const auto gguf = load_model(parity("qwen3/model.gguf"), *backend, {});
    QVERIFY2(folder.ok(), message(folder).c_str());
    QVERIFY2(gguf.ok(), message(gguf).c_str());
    QCOMPARE(folder->description, gguf->description);
    QCOMPARE(gguf->description, "qwen3, 30 k parameters, BF16");
    QCOMPARE(gguf->name, "Tiny qwen3");
    QCOMPARE(folder->name, "hf");
    QVERIFY(folder->template_note.empty() && gguf->template_note.empty());
    const ChatMessage message{"user", "the thin in", ""};
    const auto prompt = folder->chat_template->render({message}, {});
    const auto same = gguf->chat_template->render({message}, {});
    QVERIFY(prompt.ok() && same.ok());
    QCOMPARE(prompt->text, "<|begin|>user\nthe thin in<|end|>\n<|begin|>assistant\n");
    QCOMPARE(same->text, prompt->text);
    QCOMPARE(folder->tokenizer->encode(prompt->text, {}),
             gguf->tokenizer->encode(prompt->text, {}));
    QCOMPARE(folder->tokenizer->eos_id(), gguf->tokenizer->eos_id());
    const std::vector<std::int32_t> ids{1, 2, 3};
    QCOMPARE(test::prompt_logits(*folder->model, ids, {2}, 4),
             test::prompt_logits(*gguf->model, ids, {2}, 4));
  }

  void aTemplateThatCannotBeUsedIsReplacedAndSaid() {
    const FolderCopy folder;
    folder.write("chat_template.jinja", "{% for m in messages %}{{ m.content }");
    const auto backend = make_reference_backend();
    const auto loaded = load_model(folder.path(), *backend, {});
    QVERIFY2(loaded.ok(), message(loaded).c_str());
    QVERIFY(loaded->template_note.find("cannot be used") != std::string::npos);
    QVERIFY(loaded->chat_template->render({{"user", "Hi", ""}}, {}).ok());
  }

  void aMissingTemplateIsSaid() {
    const FolderCopy folder;
    folder.write("tokenizer_config.json", R"({"eos_token": "<|end|>"})");
    const auto backend = make_reference_backend();
    const auto loaded = load_model(folder.path(), *backend, {});
    QVERIFY2(loaded.ok(), message(loaded).c_str());
    QVERIFY(loaded->template_note.find("no chat template") != std::string::npos);
  }

  void aFolderWithoutTokenizerIsRefused() {
    const auto backend = make_reference_backend();
    const auto loaded = load_model(parity("llama/hf"), *backend, {});
    QVERIFY(!loaded.ok());
    QVERIFY2(loaded.error().message.find("tokenizer.json") != std::string::npos,
             message(loaded).c_str());
  }

  void whatDoesNotExistIsNotFound() {
    const auto backend = make_reference_backend();
    const auto loaded = load_model("/no/such/model.gguf", *backend, {});
    QVERIFY(!loaded.ok());
    QCOMPARE(loaded.error().code, ErrorCode::kModelNotFound);
  }

  void progressRunsToTheEndAndCanCancel() {
    const auto backend = make_reference_backend();
    LoadProgress last;
    int calls = 0;
    auto watch = [&](const LoadProgress& progress) {
      last = progress;
      ++calls;
      return true;
    };
    QVERIFY(load_model(parity("qwen3/model.gguf"), *backend, watch).ok());
    QCOMPARE(last.bytes_done, last.bytes_total);
    QVERIFY(last.bytes_total > 0);
    for (int stop_at = 0; stop_at < calls; ++stop_at) {
      int call = 0;
      const auto stopped = load_model(parity("qwen3/model.gguf"), *backend,
                                      [&](const LoadProgress&) { return call++ < stop_at; });
      QVERIFY(!stopped.ok());
      QCOMPARE(stopped.error().code, ErrorCode::kCancelled);
    }
  }

  void inspectReadsWithoutPacking() {
    const auto summary = inspect_model(parity("qwen3/model.gguf"));
    QVERIFY(summary.ok());
    QCOMPARE(summary->format, "GGUF v3");
    QCOMPARE(summary->architecture, "qwen3");
    QCOMPARE(summary->dtype_name, "BF16");
    QVERIFY(!summary->tokenizer.empty());
    QVERIFY(summary->chat_template_source.find("<|begin|>") != std::string::npos);
    QCOMPARE(summary->config.head_dim, 16);
    QVERIFY(summary->file_bytes > 0);
    const auto folder = inspect_model(parity("qwen3/hf/"));
    QVERIFY(folder.ok());
    QCOMPARE(folder->name, "hf");
    QCOMPARE(folder->num_parameters, summary->num_parameters);
  }

  void templateComesFromStringOrDefaultEntry() {
    QCOMPARE(template_from_tokenizer_config(R"({"chat_template": "a"})"), "a");
    QCOMPARE(template_from_tokenizer_config(
                 R"({"chat_template": [{"name": "rag", "template": "r"},
                                       {"name": "default", "template": "d"}]})"),
             "d");
    for (const char* text : {"", "[]", "{}", "{\"chat_template\": 3}", "{\"chat_template\": [1]}",
                             "{\"chat_template\": [{\"name\": 1, \"template\": \"x\"}]}"})
      QCOMPARE(template_from_tokenizer_config(text), "");
  }

  void countsReadWell() {
    QCOMPARE(count_text(999), "999");
    QCOMPARE(count_text(107'392), "107 k");
    QCOMPARE(count_text(134'515'008), "135 M");
    QCOMPARE(count_text(1'711'376'384), "1.7 B");
    QCOMPARE(count_text(70'553'706'496), "71 B");
  }
};

QUIRE_TEST(TestLoadModel)
#include "tst_load_model.moc"
