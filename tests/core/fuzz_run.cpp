#include "tests/core/fuzz_run.h"

#include <algorithm>
#include <utility>

#include "tests/core/fuzz_step.h"
#include "tests/core/harness.h"

namespace quire::test {
namespace {

constexpr int kVocab = 101;
constexpr int kDrainSteps = 3000;

// One engine and its model; also everything the engine asks or tells somebody.
class FuzzRun : public EventSink, public Drafter, public DecisionSource {
 public:
  FuzzRun(const FuzzCase& fuzz_case, FuzzProgress& progress)
      : case_(fuzz_case),
        progress_(progress),
        runner_(case_.config.num_blocks, case_.config.block_size, kVocab,
                case_.config.num_swap_blocks),
        model_(case_.config),
        core_(case_.config, runner_, [this] { return time_ += 0.001; }) {
    core_.add_sink(this);
    core_.set_decision_source(this);
    if (case_.drafts) core_.set_drafter(this);
    core_.set_on_finish([this](const Request& request, std::span<const BlockId> table) {
      require(hooked_.insert(request.id).second, "the hook is called once", index(request.id));
      require((request.status == RequestStatus::kRunning) == !table.empty(),
              "the hook comes before the blocks are freed", index(request.id));
    });
    runner_.fate = [this](const Batch&) { return std::exchange(fate_, FakeRunner::Fate::kRun); };
    runner_.moves_fail = [this] { return std::exchange(moves_fail_, false); };
  }

  void run() {
    for (std::size_t i = 0; i < case_.ops.size(); ++i) {
      progress_.op = static_cast<int>(i);
      apply(case_.ops[i]);
    }
    FuzzOp plain;
    for (int i = 0; i < kDrainSteps && core_.has_unfinished(); ++i) step(plain);
    require(!core_.has_unfinished(), "every request ends", core_.num_waiting());
    require(runner_.poisoned_reads == 0, "nothing is read that was not written");
    require(model_.pool.num_free() == model_.pool.num_blocks() && model_.host_used.empty(),
            "at the end everything is free", model_.pool.num_free());
    require(hooked_.size() == accepted_, "the hook is called for everybody", hooked_.size());
  }

  void on_step(const std::shared_ptr<const StepRecord>& record) override {
    records_.push_back(record);
  }
  void observe(const StepObservation&) override {}
  DecisionInputs next() override { return inputs_; }

  // The true continuation for a while, then nonsense.
  std::vector<TokenId> propose(const Request& request) override {
    Dice dice(seed_ + static_cast<unsigned>(index(request.id)) * 7919U);
    const std::vector<TokenId>& answer = model_.requests.at(request.id).answer;
    std::vector<TokenId> drafts;
    const int right = dice(0, 4), wrong = dice(0, 3);
    for (int i = 0; i < right; ++i) {
      const auto at = static_cast<std::size_t>(request.num_output_tokens() + i);
      if (at < answer.size()) drafts.push_back(answer[at]);
    }
    for (int i = 0; i < wrong; ++i) drafts.push_back(dice(-1, kVocab));
    proposed_[request.id] = usable(request, drafts);
    return drafts;
  }

 private:
  // No token outside the vocabulary, and none past what the request may still say.
  std::vector<TokenId> usable(const Request& request, std::vector<TokenId> drafts) const {
    const int room = std::min(request.params.max_tokens - request.num_output_tokens(),
                              core_.config().effective_context() - request.num_tokens());
    std::size_t length = 0;
    while (length < drafts.size() && static_cast<int>(length) < room - 1 && drafts[length] >= 0 &&
           drafts[length] < kVocab)
      ++length;
    drafts.resize(length);
    return drafts;
  }

  void apply(const FuzzOp& op) {
    seed_ = op.seed;
    switch (op.kind) {
      case FuzzOpKind::kAdd:
        return add(op);
      case FuzzOpKind::kAbort:
        return abort(op);
      case FuzzOpKind::kStep:
        return step(op);
      case FuzzOpKind::kCancelNext:
        return core_.cancel_step();
      case FuzzOpKind::kReset:
        ++model_.tallies[Tally::kResets];
        core_.reset_prefix_cache();
        return take_records(true, true);
      case FuzzOpKind::kReconfigure:
        return reconfigure(op);
    }
  }

  std::vector<TokenId> prompt(const FuzzOp& op) const {
    std::vector<TokenId> tokens;
    if (op.continues >= 0 && !conversations_.empty()) {
      const auto back = static_cast<std::size_t>(op.continues) % conversations_.size();
      tokens = conversations_[conversations_.size() - 1 - back];
    }
    for (const TokenId token : prompt_of(op.length, 3 * op.family)) tokens.push_back(token);
    if (op.changed_at >= 0 && op.changed_at < static_cast<int>(tokens.size()))
      tokens[op.changed_at] = static_cast<TokenId>(op.seed % kVocab);
    return tokens;
  }

  void add(const FuzzOp& op) {
    SamplingParams params;
    params.max_tokens = op.max_tokens;
    params.min_tokens = op.min_tokens;
    params.ignore_eos = op.ignore_eos;
    const RequestId id = id_of(next_id_++);
    auto request = std::make_unique<Request>(id, prompt(op), params);
    request->cache_key = op.other_key ? "other" : "";
    request->cache_salt = op.other_salt ? "salt" : "";
    request->eos_token_ids = {7, 13};
    request->priority = op.priority;
    const EngineConfig& config = model_.config;
    const int length = request->num_tokens();
    const bool fits = length < config.effective_context() &&
                      (config.enable_chunked_prefill || length <= config.max_num_batched_tokens) &&
                      static_cast<int>(model_.waiting().size()) < config.max_queue;
    const bool added = core_.add_request(std::move(request)).ok();
    require(added == fits, "what can never run is refused, and nothing else", index(id), length);
    if (!added) {
      ++model_.tallies[Tally::kRefusals];
      return;
    }
    ++accepted_;
    const Request& known = *core_.find(id);
    int room = config.effective_context() - length;
    if (!config.enable_chunked_prefill)
      room = std::min(room, config.max_num_batched_tokens + 1 - length);
    require(known.params.max_tokens == (op.max_tokens < 0 ? room : std::min(room, op.max_tokens)),
            "max_tokens becomes what fits", index(id), known.params.max_tokens);
    model_.arrive(known, answer_alone(known, kVocab, config.effective_context()));
  }

  bool is_target(const ModelRequest& request, AbortTarget target) const {
    switch (request.status) {
      case RequestStatus::kWaiting:
        return target == AbortTarget::kWaiting;
      case RequestStatus::kPreempted:
        return target == AbortTarget::kPreempted;
      case RequestStatus::kSwapped:
        return target == AbortTarget::kSwapped;
      default:
        return target ==
               (request.decoding() ? AbortTarget::kDecoding : AbortTarget::kPartialPrefill);
    }
  }

  void abort(const FuzzOp& op) {
    std::vector<RequestId> targets;
    if (op.target == AbortTarget::kJustFinished) targets = just_finished_;
    for (const auto& [id, request] : model_.requests)
      if (is_target(request, op.target)) targets.push_back(id);
    if (targets.empty()) return;
    const RequestId id = targets[static_cast<std::size_t>(op.pick) % targets.size()];
    const bool alive = model_.find(id) != nullptr;
    require(core_.abort_request(id) == alive, "only a live request can be aborted", index(id));
    take_records(alive, false);
    require(model_.find(id) == nullptr, "an aborted request is gone", index(id));
    ++model_.tallies[static_cast<Tally>(static_cast<int>(Tally::kAbortedWaiting) +
                                        static_cast<int>(op.target))];
  }

  void reconfigure(const FuzzOp& op) {
    EngineConfig wanted = op.config;
    const auto now = config_fields(core_.config());
    for (const ConfigField& field : now)
      if (!field.live) (void)set_config_field(wanted, field.name, field.value);
    int longest = 0;
    for (const auto& [id, request] : model_.requests)
      longest = std::max(longest, request.num_prompt + request.max_tokens - 1);
    const bool fits = wanted.enable_chunked_prefill || longest <= wanted.max_num_batched_tokens;
    require(core_.reconfigure(wanted).ok() == fits,
            "a change is refused if a request could not finish under it", longest);
    if (!fits) return;
    ++model_.tallies[Tally::kReconfigurations];
    model_.reconfigure(wanted);
  }

  void step(const FuzzOp& op) {
    inputs_ = op.inputs;
    fate_ = op.fate;
    moves_fail_ = op.moves_fail;
    proposed_.clear();
    const bool busy = core_.has_unfinished(), idle = model_.running.empty();
    try {
      check_outputs(core_.step());
    } catch (const DeviceError&) {
      require(!core_.has_unfinished(), "a failed device leaves no request");
    }
    core_.check_integrity();
    just_finished_.clear();
    const bool recorded = !records_.empty();
    if (recorded) check_progress(*records_.front(), idle);
    model_.last.known = recorded;
    require(recorded || !busy || (!idle && model_.config.max_itl_ms > 0),
            "something runs whenever something can");
    take_records(recorded, false);
    poison_empty_blocks();
  }

  void check_progress(const StepRecord& record, bool was_idle) const {
    if (!was_idle && model_.config.max_itl_ms > 0) return;
    require(!record.scheduled.empty() || !record.finished.empty(),
            "something runs whenever something can");
  }

  void check_outputs(const std::vector<RequestOutput>& outputs) {
    std::map<RequestId, std::vector<TokenId>> told;
    for (const SampledToken& token :
         records_.empty() ? std::vector<SampledToken>() : records_.back()->sampled)
      told[token.request].push_back(token.token);
    for (const RequestOutput& output : outputs) {
      std::vector<TokenId> tokens;
      for (const SampledRow& row : output.tokens) tokens.push_back(row.token);
      require(tokens == told[output.request], "a record tells what was delivered",
              index(output.request));
    }
  }

  // Takes the records of one operation: one if it `must` leave one, else none.
  void take_records(bool must, bool reset) {
    require(records_.size() == (must ? 1U : 0U), "an operation leaves one record", records_.size());
    if (!must) return;
    const StepRecord& record = *records_.front();
    require(record.step == ++num_records_, "records are counted", record.step);
    std::map<RequestId, std::vector<TokenId>> said;
    const bool stepped =
        !reset && (record.finished.empty() || !record.scheduled.empty() || !is_abort(record));
    if (stepped)
      StepCheck(model_, record).run();
    else
      check_between_steps(model_, record, reset);
    for (const FinishRecord& finish : record.finished) {
      just_finished_.push_back(finish.request);
      if (const Request* request = core_.find(finish.request))
        conversations_.push_back(request->token_ids);
    }
    for (auto& [id, drafts] : proposed_)
      if (ModelRequest* request = model_.find(id)) request->drafts = std::move(drafts);
    proposed_.clear();
    check_snapshot(model_, record, core_.snapshot());
    records_.clear();
    progress_.tallies = model_.tallies;
  }

  static bool is_abort(const StepRecord& record) {
    return record.finished.front().reason == FinishReason::kAborted;
  }

  void poison_empty_blocks() {
    for (int b = 0; b < model_.pool.num_blocks(); ++b)
      if (model_.pool.at(BlockId{b}).refs == 0 && !model_.pool.at(BlockId{b}).hashed)
        runner_.poison(BlockId{b});
  }

  const FuzzCase& case_;
  FuzzProgress& progress_;
  FakeRunner runner_;
  FuzzModel model_;
  double time_ = 0;
  EngineCore core_;
  std::vector<std::shared_ptr<const StepRecord>> records_;
  std::uint64_t num_records_ = 0;
  std::int64_t next_id_ = 0;
  std::size_t accepted_ = 0;
  std::set<RequestId> hooked_;
  std::vector<RequestId> just_finished_;
  std::vector<std::vector<TokenId>> conversations_;
  std::map<RequestId, std::vector<TokenId>> proposed_;
  DecisionInputs inputs_;
  FakeRunner::Fate fate_ = FakeRunner::Fate::kRun;
  bool moves_fail_ = false;
  unsigned seed_ = 0;
};

}  // namespace

void run_case(const FuzzCase& fuzz_case, FuzzProgress& progress) {
  FuzzRun(fuzz_case, progress).run();
}

}  // namespace quire::test
