#include "tests/trace/busy_run.h"

#include <fstream>
#include <iterator>

namespace quire::test {
namespace {

EngineConfig random_config(Dice& dice) {
  EngineConfig config = small_config(dice(8, 40), dice.chance(50) ? 4 : dice(1, 7));
  config.max_num_seqs = dice(2, 8);
  config.max_num_batched_tokens = dice(4, 48);
  config.enable_prefix_caching = dice.chance(85);
  config.enable_chunked_prefill = dice.chance(85);
  config.max_model_len = dice(30, 120);
  config.max_queue = 12;
  config.policy = static_cast<SchedulingPolicy>(dice(0, 2));
  config.victim = static_cast<VictimChoice>(dice(0, 1));
  config.preemption_mode = static_cast<PreemptionMode>(dice(0, 2));
  config.num_swap_blocks = dice.chance(70) ? dice(1, 40) : 0;
  config.prefix_index = static_cast<PrefixIndexKind>(dice(0, 1));
  config.prefill_chunk = {dice(0, 40), dice(0, 20)};
  config.max_num_partial_prefills = dice.chance(30) ? dice(1, 3) : 0;
  config.max_itl_ms = dice.chance(30) ? 4 : 0;
  return config;
}

class RandomDrafter : public Drafter {
 public:
  RandomDrafter(Dice& dice, Harness& engine) : dice_(dice), engine_(engine) {}
  std::vector<TokenId> propose(const Request& request) override {
    std::vector<TokenId> drafts;
    const auto truth = engine_.expected(index(request.id));
    const auto from = static_cast<std::size_t>(request.num_output_tokens());
    for (int i = dice_(0, 4); i > 0 && from + drafts.size() < truth.size(); --i)
      drafts.push_back(truth[from + drafts.size()]);
    for (int i = dice_(0, 3); i > 0; --i) drafts.push_back(dice_(0, 100));
    return drafts;
  }

 private:
  Dice& dice_;
  Harness& engine_;
};

// Finds a "stop string" at some tokens.
class RandomText : public OutputProcessor {
 public:
  void begin(const Request&) override {}
  Outcome on_token(RequestId, TokenId token, bool stops_allowed) override {
    if (stops_allowed && token % 29 == 3) return {"x", "stop here"};
    return {"x", {}};
  }
  std::string finish(RequestId, FinishReason) override { return {}; }
};

void add_random_request(Harness& engine, Dice& dice, std::int64_t id) {
  SamplingParams params;
  params.max_tokens = dice.chance(5) ? -1 : dice(0, 20);
  if (params.max_tokens > 2) params.min_tokens = dice(0, 2);
  params.ignore_eos = dice.chance(30);
  std::vector<TokenId> prompt = prompt_of(dice(1, 60), 3 * dice(0, 2));
  for (auto& token : prompt)
    if (dice.chance(2)) token = dice(0, 100);
  engine.next_priority = dice(0, 3);
  (void)engine.add(id, std::move(prompt), params, dice.chance(20) ? "other" : "", {7, 13});
}

void change_settings(Harness& engine, Dice& dice) {
  EngineConfig config = engine.core.config();
  config.policy = static_cast<SchedulingPolicy>(dice(0, 2));
  config.preemption_mode = static_cast<PreemptionMode>(dice(0, 2));
  config.max_num_seqs = dice(1, 8);
  config.max_num_batched_tokens = dice(4, 60);
  (void)engine.core.reconfigure(config);
}

}  // namespace

BusyRun record_busy_run(const std::string& path, unsigned seed, int num_steps) {
  Dice dice(seed);
  RandomText text;
  Harness engine(random_config(dice), &text);
  RandomDrafter drafter(dice, engine);
  if (dice.chance(50)) engine.core.set_drafter(&drafter);
  const auto measured = make_measured_decisions(dice(0, 2));
  engine.core.set_decision_source(measured.get());
  bool fail_next = false;
  engine.runner.fate = [&](const Batch&) {
    if (std::exchange(fail_next, false)) return FakeRunner::Fate::kFail;
    return dice.chance(5) ? FakeRunner::Fate::kCancel : FakeRunner::Fate::kRun;
  };

  BusyRun run{{engine.core.config(), "test", "fake", engine.runner.vocab_size(), 64, 0}, {}};
  EventLog log;
  auto recorder = TraceRecorder::create(
      path, {run.header, [&](auto done) { done(engine.core.snapshot()); }, {}},
      engine.core.snapshot());
  engine.core.add_sink(&log);
  engine.core.add_sink(recorder->get());
  std::int64_t next_id = 0;
  for (int i = 0; i < num_steps; ++i) {
    while (dice.chance(25) || !engine.core.has_unfinished())
      add_random_request(engine, dice, next_id++);
    if (dice.chance(5)) engine.core.abort_request(id_of(dice(0, static_cast<int>(next_id))));
    if (dice.chance(3)) engine.core.cancel_step();
    if (dice.chance(1)) engine.core.reset_prefix_cache();
    if (dice.chance(2)) change_settings(engine, dice);
    fail_next = dice.chance(1);
    if (!engine.core.has_unfinished()) continue;
    try {
      engine.step();
    } catch (const DeviceError&) {
    }
  }
  (*recorder)->finish();
  run.events = std::move(log.events);
  return run;
}

void write_recording(const std::string& path, const TraceHeader& header,
                     const std::vector<TraceEvent>& events) {
  EngineSnapshot first;
  first.block_size = header.config.block_size;
  first.blocks.resize(static_cast<std::size_t>(header.config.num_blocks));
  const auto made = TraceRecorder::create(path, {header, {}, {}}, first);
  TraceRecorder& recorder = **made;
  for (const TraceEvent& event : events) {
    if (const auto* step = std::get_if<StepRecord>(&event))
      recorder.on_step(std::make_shared<const StepRecord>(*step));
    if (const auto* arrival = std::get_if<ArrivalRecord>(&event)) recorder.on_arrival(*arrival);
    if (const auto* abort = std::get_if<AbortRecord>(&event)) recorder.on_abort(*abort);
    if (const auto* change = std::get_if<ReconfigureRecord>(&event))
      recorder.on_reconfigure(*change);
    if (const auto* reset = std::get_if<CacheResetRecord>(&event)) recorder.on_cache_reset(*reset);
  }
  recorder.finish();
}

std::vector<TraceEvent> read_events(const TraceReader& reader, bool with_keyframes) {
  std::vector<TraceEvent> events;
  TraceEvent event;
  for (TraceCursor cursor = reader.begin(); cursor.next(event);)
    if (with_keyframes || !std::holds_alternative<EngineSnapshot>(event)) events.push_back(event);
  return events;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace quire::test
