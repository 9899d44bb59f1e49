#include <QFile>
#include <QTemporaryDir>

#include "engine/trace/event_codec.h"
#include "engine/trace/step_difference.h"
#include "tests/support/test_main.h"
#include "tests/trace/busy_run.h"

using namespace quire;
using namespace quire::test;

namespace {

bool same(const StepTimes& a, const StepTimes& b) {
  return a.start_s == b.start_s && a.schedule_us == b.schedule_us && a.prepare_us == b.prepare_us &&
         a.forward_us == b.forward_us && a.sample_us == b.sample_us && a.update_us == b.update_us &&
         a.move_us == b.move_us;
}

bool same(const SamplingParams& a, const SamplingParams& b) {
  return a.max_tokens == b.max_tokens && a.min_tokens == b.min_tokens &&
         a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
         a.min_p == b.min_p && a.repetition_penalty == b.repetition_penalty &&
         a.presence_penalty == b.presence_penalty && a.frequency_penalty == b.frequency_penalty &&
         a.seed == b.seed && a.ignore_eos == b.ignore_eos && a.stop_token_ids == b.stop_token_ids &&
         a.stop == b.stop && a.logprobs == b.logprobs;
}

struct Same {
  const TraceEvent& other;
  bool operator()(const StepRecord& a) const {
    const auto& b = std::get<StepRecord>(other);
    return step_difference(a, b).empty() && same(a.times, b.times);
  }
  bool operator()(const ArrivalRecord& a) const {
    const auto& b = std::get<ArrivalRecord>(other);
    return a.request == b.request && a.label == b.label && a.time_s == b.time_s &&
           a.prompt_token_ids == b.prompt_token_ids && same(a.params, b.params) &&
           a.cache_key == b.cache_key && a.cache_salt == b.cache_salt &&
           a.eos_token_ids == b.eos_token_ids && a.priority == b.priority;
  }
  bool operator()(const AbortRecord& a) const {
    const auto& b = std::get<AbortRecord>(other);
    return a.request == b.request && a.time_s == b.time_s;
  }
  bool operator()(const ReconfigureRecord& a) const {
    const auto& b = std::get<ReconfigureRecord>(other);
    return a.config == b.config && a.time_s == b.time_s;
  }
  bool operator()(const CacheResetRecord& a) const {
    return a.time_s == std::get<CacheResetRecord>(other).time_s;
  }
  bool operator()(const EngineSnapshot&) const { return false; }
};

bool same(const std::vector<TraceEvent>& a, const std::vector<TraceEvent>& b) {
  return std::ranges::equal(a, b, [](const TraceEvent& x, const TraceEvent& y) {
    return x.index() == y.index() && std::visit(Same{y}, x);
  });
}

std::unique_ptr<TraceReader> parse(std::string_view bytes) {
  auto reader = TraceReader::parse(bytes, "'x'");
  return reader.ok() ? std::move(*reader) : nullptr;
}

std::string refusal(std::string_view bytes) {
  const auto reader = TraceReader::parse(bytes, "'x'");
  return reader.ok() ? "" : reader.error().message;
}

}  // namespace

class TestTraceFile : public QObject {
  Q_OBJECT
 private slots:
  void init() { path_ = folder_.filePath("run.quiretrace").toStdString(); }

  void whatIsRecordedIsReadBack() {
    for (unsigned seed = 100; seed < 120; ++seed) {
      const BusyRun run = record_busy_run(path_, seed, 100);
      const auto reader = TraceReader::open(path_);
      QVERIFY(reader.ok());
      QCOMPARE(QString::fromStdString((*reader)->damage()), QString());
      QVERIFY((*reader)->starts_fresh());
      QCOMPARE((*reader)->header().config, run.header.config);
      QVERIFY(same(read_events(**reader), run.events));
    }
  }

  void everyParameterOfARequestIsKept() {
    ArrivalRecord arrival{RequestId{7}, "api chatcmpl-1", 1.5, {1, 100, 0}, {},
                          "key",        "salt",           {2}, -3};
    arrival.params = {9,    1,    0.5f,  40,   0.9f,   0.1f,          1.1f,
                      0.2f, 0.3f, ~0ull, true, {4, 5}, {"end", "\n"}, 3};
    write_recording(path_, small_header(), {arrival});
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    QVERIFY(same(read_events(**reader), {arrival}));
  }

  void aKeyframeIsReadBackAndFoundBySeeking() {
    Harness engine(small_config(40, 4));
    TraceHeader header = small_header();
    header.config = engine.core.config();
    std::vector<EngineSnapshot> taken;
    const auto snapshot = [&] { return taken.emplace_back(engine.core.snapshot()); };
    const auto recorder = TraceRecorder::create(
        path_, {header, [&](auto done) { done(snapshot()); }, {}}, snapshot());
    engine.core.add_sink(recorder->get());
    for (int i = 0; i < TraceRecorder::kKeyframeEvery + 40; ++i) {
      if (engine.core.num_running() + engine.core.num_waiting() < 4)
        QVERIFY(engine.add(i, 10 + i % 7, 9).ok());
      engine.core.step();
    }
    (*recorder)->finish();
    QCOMPARE(taken.size(), std::size_t{2});
    const auto reader = TraceReader::open(path_);
    QVERIFY(reader.ok());
    for (const std::uint64_t wanted :
         {std::uint64_t{1}, std::uint64_t{1024}, std::uint64_t{1025}}) {
      TraceEvent event;
      QVERIFY((*reader)->seek(wanted).next(event));
      const EngineSnapshot& expected = taken[wanted > 1024 ? 1 : 0];
      const auto& read = std::get<EngineSnapshot>(event);
      std::string a, b;
      encode(expected, a);
      encode(read, b);
      QCOMPARE(read.step, expected.step);
      QVERIFY(a == b);
    }
    QCOMPARE((*reader)->num_steps(), std::uint64_t{TraceRecorder::kKeyframeEvery + 40});
    // Deltas begin anew behind a keyframe.
    std::vector<TraceEvent> tail;
    TraceEvent event;
    for (TraceCursor cursor = (*reader)->seek(1030); cursor.next(event);) tail.push_back(event);
    const std::vector<TraceEvent> whole = read_events(**reader, true);
    QVERIFY(same({tail.begin() + 1, tail.end()},
                 {whole.end() - static_cast<std::ptrdiff_t>(tail.size()) + 1, whole.end()}));
  }

  void aTypicalStepTakesLessThanAKilobyte() {
    EngineConfig config = small_config(2000);
    Harness engine(config);
    for (int id = 0; id < 64; ++id) QVERIFY(engine.add(id, 30 + id, 400).ok());
    while (engine.core.num_waiting() > 0 || engine.core.num_running() < 64) engine.core.step();
    TraceHeader header = small_header();
    header.config = config;
    EventLog log;
    engine.core.add_sink(&log);
    for (int i = 0; i < 200; ++i) engine.core.step();
    const auto size_of = [&](std::vector<TraceEvent> events) {
      for (TraceEvent& event : events) {  // ids as large as a real vocabulary's
        auto& step = std::get<StepRecord>(event);
        for (SampledToken& sampled : step.sampled) sampled.token += 150000;
      }
      write_recording(path_, header, events);
      return read_file(path_).size();
    };
    QCOMPARE(std::get<StepRecord>(log.events.back()).scheduled.size(), std::size_t{64});
    const std::size_t bytes = size_of(log.events) - size_of({log.events.front()});
    qInfo("%.0f bytes per step of 64 decodes", static_cast<double>(bytes) / 199);
    QVERIFY(bytes / 199 < 1024);
  }

  void aCutRecordingOpensToItsLastWholeStep() {
    record_busy_run(path_, 3, 12);
    const std::string bytes = read_file(path_);
    const std::vector<TraceEvent> all = read_events(*parse(bytes));
    std::size_t last = 0;
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      const auto reader = parse(cut);
      if (reader == nullptr) {
        QCOMPARE(last, std::size_t{0});
        QVERIFY(!refusal(cut).empty());
        continue;
      }
      const std::vector<TraceEvent> events = read_events(*reader);
      QVERIFY(events.size() >= last);
      QVERIFY(
          same(events, {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(events.size())}));
      QVERIFY(!reader->damage().empty());
      last = events.size();
    }
    QCOMPARE(last, all.size());
  }

  void aDamagedRecordingNeverCrashesAndSaysSo() {
    record_busy_run(path_, 4, 30);
    const std::string bytes = read_file(path_);
    Dice dice(9);
    for (int i = 0; i < 300; ++i) {
      std::string damaged = bytes;
      for (int n = dice(1, 3); n > 0; --n)
        damaged[static_cast<std::size_t>(dice(0, static_cast<int>(bytes.size()) - 1))] ^=
            static_cast<char>(dice(1, 255));
      const auto reader = parse(damaged);
      if (reader == nullptr) continue;
      QVERIFY(!reader->damage().empty());
      read_events(*reader);
    }
  }

  // As above with right checksums, so that the payloads are looked into.
  void aForgedRecordingNeverCrashes() {
    record_busy_run(path_, 5, 30);
    std::string bytes = read_file(path_);
    std::string_view left = bytes;
    QVERIFY(take_header(left, "'x'").ok());
    const std::string head = bytes.substr(0, bytes.size() - left.size());
    std::vector<std::pair<FrameKind, std::string>> frames;
    for (TraceFrame frame; take_frame(left, frame);)
      frames.emplace_back(frame.kind, std::string(frame.payload));
    Dice dice(11);
    for (int i = 0; i < 300; ++i) {
      const auto chosen = static_cast<std::size_t>(dice(0, static_cast<int>(frames.size()) - 1));
      std::string forged = head;
      for (std::size_t f = 0; f < frames.size(); ++f) {
        std::string payload = frames[f].second;
        if (f == chosen && !payload.empty())
          for (int n = dice(1, 3); n > 0; --n)
            payload[static_cast<std::size_t>(dice(0, static_cast<int>(payload.size()) - 1))] =
                static_cast<char>(dice(0, 255));
        append_frame(forged, frames[f].first, payload);
      }
      if (const auto reader = parse(forged)) read_events(*reader);
    }
  }

  void framesOfUnknownKindsAreSkipped() {
    write_recording(path_, small_header(), {AbortRecord{RequestId{1}, 2}});
    const std::string bytes = read_file(path_);
    std::string_view left = bytes;
    QVERIFY(take_header(left, "'x'").ok());
    std::string longer = bytes.substr(0, bytes.size() - left.size());
    append_frame(longer, FrameKind{200}, "of a later version");
    longer += left;
    const auto reader = parse(longer);
    QVERIFY(reader != nullptr);
    QCOMPARE(read_events(*reader).size(), std::size_t{1});
    QVERIFY(reader->damage().empty());
  }

  void otherFilesAreRefusedWithASentence() {
    QVERIFY(refusal("").find("not a recording") != std::string::npos);
    QVERIFY(refusal("GGUF and more").find("not a recording") != std::string::npos);
    std::string bytes = encode_header(small_header());
    QVERIFY(refusal(bytes).find("before its first step") != std::string::npos);
    bytes[kTraceMagic.size()] = 9;
    QVERIFY(refusal(bytes).find("version 9") != std::string::npos);
  }

  void whatBecameOfEachRequestIsGathered() {
    Harness engine(small_config(40, 4));
    EventLog log;
    engine.core.add_sink(&log);
    QVERIFY(engine.add(1, 10, 3).ok());
    engine.step();
    QVERIFY(engine.add(2, 20, 50).ok());
    engine.step();
    engine.core.abort_request(id_of(2));
    engine.run();
    TraceHeader header = small_header();
    header.config = engine.core.config();
    write_recording(path_, header, log.events);
    const auto requests = recorded_requests(**TraceReader::open(path_));
    QCOMPARE(requests.size(), std::size_t{2});
    QVERIFY(requests[0].output == engine.answers.at(1));
    QCOMPARE(requests[0].finish, FinishReason::kLength);
    QCOMPARE(requests[0].token_times_s.size(), std::size_t{3});
    QCOMPARE(requests[1].arrived_before_step, std::uint64_t{2});
    QCOMPARE(requests[1].finish, FinishReason::kAborted);
    QCOMPARE(requests[1].output.size(), std::size_t{1});
  }

 private:
  static TraceHeader small_header() {
    return {small_config(8, 4), "quire test", "fake", 200000, 64, 1700000000};
  }

  QTemporaryDir folder_;
  std::string path_;
};

QUIRE_TEST(TestTraceFile)
#include "tst_trace_file.moc"
