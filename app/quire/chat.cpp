#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <iostream>
#include <mutex>
#include <thread>

#include "app/quire/commands.h"
#include "app/quire/model_flags.h"

namespace quire {
namespace {

struct ChatFlags {
  ModelFlags model;
  std::string system;
  std::string prompt;  // one question instead of a conversation
  SamplingParams sampling;
  std::int64_t seed = -1;
  bool quiet = false;
};

std::atomic<bool> interrupted{false};

void on_interrupt(int) {
  interrupted = true;
}

// Prints text as it comes and remembers the last update.
class PrintingSink : public RequestSink {
 public:
  bool on_update(const GenerationUpdate& update) override {
    const std::lock_guard lock(mutex_);
    if (!update.text.empty()) {
      std::fwrite(update.text.data(), 1, update.text.size(), stdout);
      std::fflush(stdout);
      answer_ += update.text;
    }
    last_ = update;
    changed_.notify_all();
    return true;
  }
  // Waits until the request is finished; an interrupt calls `stop` once.
  GenerationUpdate wait(const std::function<void()>& stop) {
    std::unique_lock lock(mutex_);
    bool stopped = false;
    while (last_.state != GenerationState::kFinished) {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
      if (interrupted && !stopped) {
        stopped = true;
        lock.unlock();
        stop();
        lock.lock();
      }
    }
    return last_;
  }
  std::string answer() {
    const std::lock_guard lock(mutex_);
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  GenerationUpdate last_;
  std::string answer_;
};

Result<std::vector<TokenId>> encode_chat(const HostedModel& model,
                                         const std::vector<ChatMessage>& messages) {
  const Tokenizer& tokenizer = *model.tokenizer;
  ChatTemplateOptions options;
  if (tokenizer.bos_id() >= 0) options.bos_token = tokenizer.token_text(tokenizer.bos_id());
  if (tokenizer.eos_id() >= 0) options.eos_token = tokenizer.token_text(tokenizer.eos_id());
  options.now_s = static_cast<double>(std::time(nullptr));
  QUIRE_TRY(const RenderedPrompt prompt, model.chat_template->render(messages, options));
  EncodeOptions encode;
  encode.specials = EncodeOptions::Specials::kRanges;
  encode.special_ranges = prompt.template_ranges;
  return tokenizer.encode(prompt.text, encode);
}

void print_figures(const GenerationUpdate& done) {
  const double seconds = done.last_token_s - done.first_token_s;
  const double rate = seconds > 0 ? (done.num_output_tokens - 1) / seconds : 0;
  fmt::print(stderr,
             "[{} tokens, {:.1f} tok/s, first after {:.2f} s, {} of {} prompt tokens cached]\n",
             done.num_output_tokens, rate, std::max(0.0, done.first_token_s),
             done.num_cached_tokens, done.num_prompt_tokens);
}

// One turn: asks, streams the answer, keeps both in the conversation. False when it failed.
bool ask(const HostedModel& model, const ChatFlags& flags, std::vector<ChatMessage>& messages,
         std::string text) {
  messages.push_back({"user", std::move(text), {}});
  auto tokens = encode_chat(model, messages);
  if (!tokens.ok()) {
    print_error(tokens.error().message);
    messages.pop_back();
    return false;
  }
  interrupted = false;
  auto sink = std::make_shared<PrintingSink>();
  GenerationRequest request;
  request.prompt_token_ids = std::move(*tokens);
  request.params = flags.sampling;
  if (flags.seed >= 0) request.params.seed = static_cast<std::uint64_t>(flags.seed);
  request.label = "chat";
  auto id = model.engine->submit(std::move(request), sink);
  if (!id.ok()) {
    print_error(id.error().message);
    messages.pop_back();
    return false;
  }
  const GenerationUpdate done = sink->wait([&] { model.engine->abort(*id); });
  fmt::print("\n");
  std::fflush(stdout);
  messages.push_back({"assistant", sink->answer(), {}});
  if (done.finish_reason == FinishReason::kError) {
    print_error(done.error);
    return false;
  }
  if (done.finish_reason == FinishReason::kLength) {
    fmt::print(stderr, "[the answer ended at its length limit]\n");
  }
  if (!flags.quiet) print_figures(done);
  return true;
}

int chat(ChatFlags& flags) {
  auto host = ModelHost::create();
  const auto model = load_for_command(*host, flags.model);
  if (model == nullptr) return kExitModel;
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART, so that waiting for a line ends too
  sigaction(SIGINT, &action, nullptr);

  std::vector<ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system, {}});
  if (!flags.prompt.empty())
    return ask(*model, flags, messages, flags.prompt) ? kExitOk : kExitFailure;

  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    fmt::print(stderr, "{} ({}). Ctrl-C stops an answer, Ctrl-D leaves, /new starts over.\n",
               model->name, model->backend_description);
  }
  int code = kExitOk;
  std::string line;
  while (true) {
    if (terminal) {
      fmt::print("> ");
      std::fflush(stdout);
    }
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    if (line == "/new") {
      messages.resize(flags.system.empty() ? 0 : 1);
      continue;
    }
    code = ask(*model, flags, messages, line) ? kExitOk : kExitFailure;
  }
  if (terminal) fmt::print("\n");
  return code;
}

}  // namespace

void add_chat(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command =
      app.add_subcommand("chat", "Chat in the terminal; reads questions from standard input");
  flags->model.add_to(*command, true);
  command->add_option("-p,--prompt", flags->prompt, "Ask this one question and leave");
  command->add_option("-s,--system", flags->system, "System prompt");
  command
      ->add_option("--temperature", flags->sampling.temperature, "0 = always the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-p", flags->sampling.top_p)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--top-k", flags->sampling.top_k, "0 = all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--min-p", flags->sampling.min_p)
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      ->add_option("-n,--max-tokens", flags->sampling.max_tokens,
                   "Longest answer; default: to the context's end")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--seed", flags->seed, "Same seed, same answer")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("-q,--quiet", flags->quiet, "No figures after each answer");
  command->callback([flags, &exit_code] { exit_code = chat(*flags); });
}

}  // namespace quire
