#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/engine_core.h"
#include "tests/core/fake_runner.h"

namespace quire::test {

EngineConfig small_config(int num_blocks, int block_size = 16);
std::vector<TokenId> prompt_of(int length, int first = 3, int vocab_size = 101);
RequestId id_of(std::int64_t value);

// Keeps every record.
class RecordingSink : public EventSink {
 public:
  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    records.push_back(record);
  }
  void on_arrival(const ArrivalRecord& record) override { arrivals.push_back(record); }
  void on_abort(const AbortRecord& record) override { aborts.push_back(record); }
  void on_reconfigure(const ReconfigureRecord& record) override { changes.push_back(record); }
  const StepRecord& last() const { return *records.back(); }

  std::vector<std::shared_ptr<const StepRecord>> records;
  std::vector<ArrivalRecord> arrivals;
  std::vector<AbortRecord> aborts;
  std::vector<ReconfigureRecord> changes;
};

// An EngineCore on a FakeRunner. After every step it checks all invariants and poisons the blocks
// that are free and empty; its clock advances by a millisecond at every look.
class Harness {
 public:
  struct Ended {
    FinishReason reason = FinishReason::kNone;
    std::string stop_reason;
  };

  explicit Harness(EngineConfig config, OutputProcessor* processor = nullptr);

  Status add(std::int64_t id, std::vector<TokenId> prompt, SamplingParams params,
             std::string cache_key = {}, std::vector<TokenId> eos = {});
  Status add(std::int64_t id, int prompt_length, int max_tokens, int first = 3);
  std::vector<RequestOutput> step();
  // Steps until nothing is left; at most `limit` steps.
  bool run(int limit = 10000);
  bool all_blocks_free() const;
  std::vector<TokenId> expected(std::int64_t id) const { return expected_.at(id); }
  bool answers_match() const;  // of all requests that ended by themselves

  int next_priority = 0;  // of the requests added from now on
  FakeRunner runner;
  EngineCore core;
  RecordingSink sink;
  std::map<std::int64_t, std::vector<TokenId>> answers;
  std::map<std::int64_t, std::string> texts;
  std::map<std::int64_t, Ended> ended;

 private:
  std::map<std::int64_t, std::vector<TokenId>> expected_;
  double time_ = 0;
};

// "1:prefill 8 | 2:decode 1 | preempt 3 for 1 | admit 2": a record in one line.
std::string plan_text(const StepRecord& record);

}  // namespace quire::test
