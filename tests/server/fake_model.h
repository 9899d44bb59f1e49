#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "engine/model_host.h"

namespace quire::test {

// What the fake model does; may be changed while it runs.
struct Behaviour {
  std::atomic<int> step_ms{0};     // each step takes so long
  std::atomic<int> prefill_ms{0};  // a step of more than kManyTokens tokens takes so long
  std::atomic<bool> fail{false};   // the next step throws a DeviceError
  std::atomic<int> cancelled{0};   // steps that were cancelled
  std::atomic<int> prefills{0};    // such steps begun
  std::string reply;  // what it says, then end of text; empty: repeats the prompt for ever

  static constexpr int kManyTokens = 64;
};

// A model of bytes on a real engine thread. Its template writes <|im_start|>role, content,
// <|im_end|>; a content of "raise" makes the template refuse, "throw" makes it throw.
std::shared_ptr<HostedModel> make_fake_model(std::shared_ptr<Behaviour> behaviour,
                                             EngineConfig config, bool paused = false);

EngineConfig fake_config();  // 64 blocks of 16 tokens, context 1024

// A host whose model and status are set by hand.
class FakeHost : public ModelHost {
 public:
  void set(std::shared_ptr<HostedModel> model, HostState state);

  void load(std::string, std::string, LoadOptions, double) override {}
  Result<std::shared_ptr<HostedModel>> load_and_wait(std::string, std::string, LoadOptions,
                                                     const ProgressCallback&) override;
  void cancel_load() override {}
  void unload() override {}
  std::shared_ptr<HostedModel> current() const override;
  HostStatus status() const override;
  LoadOptions options() const override { return {}; }
  std::shared_ptr<void> subscribe(Listener listener) override;
  void shutdown(double) override {}

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<HostedModel> model_;
  HostStatus status_;
  std::list<Listener> listeners_;
};

}  // namespace quire::test
