#include "engine/core/engine_core.h"

#include <algorithm>

#include "engine/core/engine_core_impl.h"
#include "engine/sampling/philox.h"
#include "kernels/check.h"

namespace quire {

EngineCore::Impl::Impl(EngineConfig engine_config, Runner& step_runner, Clock step_clock,
                       OutputProcessor* output_processor)
    : config(engine_config),
      runner(step_runner),
      clock(std::move(step_clock)),
      processor(output_processor),
      blocks(config.num_blocks, config.block_size,
             config.enable_prefix_caching
                 ? make_prefix_index(config.prefix_index, config.num_blocks, config.block_size)
                 : nullptr),
      swap(config.num_swap_blocks),
      scheduler(config, blocks, swap) {}

Status EngineCore::Impl::add(std::unique_ptr<Request> request) {
  const RequestId id = request->id;
  if (requests.contains(id))
    return make_error(ErrorCode::kInvalidArgument,
                      "A request with the id " + std::to_string(index(id)) + " already exists.");
  QUIRE_RETURN_IF_ERROR(
      check_and_clamp(config, runner.vocab_size(), request->token_ids.size(), request->params));
  QUIRE_RETURN_IF_ERROR(check_token_ids(request->token_ids, runner.vocab_size()));
  if (static_cast<int>(scheduler.waiting().size()) >= config.max_queue)
    return make_error(ErrorCode::kQueueFull,
                      "The queue is full: " + std::to_string(config.max_queue) +
                          " requests are waiting; try again later.");
  if (!request->params.seed)
    request->params.seed = philox_uint64(config.seed, static_cast<std::uint64_t>(index(id)), 0);
  Request& added = *request;
  requests.emplace(id, std::move(request));
  blocks.extend_hashes(added);
  scheduler.add(added);
  if (added.params.max_tokens == 0) zero_tokens.push_back(id);
  if (processor != nullptr) processor->begin(added);
  const ArrivalRecord arrival{id,
                              added.label,
                              added.arrival_time_s,
                              added.token_ids,
                              added.params,
                              added.cache_key,
                              added.cache_salt,
                              added.eos_token_ids,
                              added.priority};
  for (EventSink* sink : sinks) sink->on_arrival(arrival);
  return Ok{};
}

bool EngineCore::Impl::abort(RequestId id) {
  const auto it = requests.find(id);
  if (it == requests.end() || it->second->finished()) return false;
  const double now = clock();
  for (EventSink* sink : sinks) sink->on_abort({id, now});
  record.times.start_s = now;
  finish(*it->second, FinishReason::kAborted, {});
  emit();
  return true;
}

std::string EngineCore::Impl::finish(Request& request, FinishReason reason,
                                     std::string stop_reason) {
  request.finish_reason = reason;
  request.stop_reason = std::move(stop_reason);
  if (on_finish) on_finish(request, blocks.table(request.id));
  scheduler.release(request);
  request.status = RequestStatus::kFinished;
  ++(reason == FinishReason::kAborted ? counters.requests_aborted : counters.requests_finished);
  finished.push_back(request.id);
  last_waits.erase(request.id);
  record.finished.push_back({request.id, reason, request.num_output_tokens()});
  return processor == nullptr ? std::string() : processor->finish(request.id, reason);
}

Status EngineCore::Impl::reconfigure(const EngineConfig& wanted) {
  QUIRE_RETURN_IF_ERROR(validate(wanted));
  const auto now = config_fields(config), next = config_fields(wanted);
  for (std::size_t i = 0; i < now.size(); ++i)
    if (!now[i].live && now[i].value != next[i].value)
      return make_error(ErrorCode::kInvalidArgument,
                        std::string(now[i].name) +
                            " cannot change while a model is loaded; reload it to change that.");
  int longest = 0;  // input a live request may have to recompute in one step
  for (const auto& [id, request] : requests)
    if (!request->finished())
      longest = std::max(longest, request->num_prompt_tokens + request->params.max_tokens - 1);
  if (!wanted.enable_chunked_prefill && longest > wanted.max_num_batched_tokens)
    return make_error(ErrorCode::kInvalidArgument,
                      "Without chunked prefill a request in the engine needs " +
                          std::to_string(longest) + " tokens in one step, more than the " +
                          std::to_string(wanted.max_num_batched_tokens) + " asked for.");
  const bool reorder = config.policy != wanted.policy;
  config = wanted;
  if (reorder) scheduler.reorder();
  const ReconfigureRecord change{clock(), config};
  for (EventSink* sink : sinks) sink->on_reconfigure(change);
  return Ok{};
}

void EngineCore::Impl::reset_prefix_cache() {
  const double now = clock();
  blocks.reset_prefix_cache();
  for (const auto& [id, request] : requests)  // those in host memory too
    if (request->num_computed_tokens > 0) request->outdated = true;
  for (EventSink* sink : sinks) sink->on_cache_reset({now});
  record.times.start_s = now;
  emit();
}

void EngineCore::Impl::reap() {
  for (const RequestId id : finished) requests.erase(id);
  finished.clear();
}

void EngineCore::Impl::note_waits() {
  for (const WaitState& state : scheduler.wait_states()) {
    const auto [it, added] = last_waits.try_emplace(state.request, state);
    const bool placed = state.reason == WaitReason::kBehind || state.reason == WaitReason::kAging;
    const bool same = placed ? it->second.reason == state.reason : it->second == state;
    it->second = state;
    if (added || !same) record.waits.push_back(state);
  }
  if (record.outcome != StepOutcome::kCompleted) return;  // its admissions are back in the queue
  for (const ScheduledWork& work : record.scheduled) last_waits.erase(work.request);
}

void EngineCore::Impl::emit() {
#ifdef QUIRE_CHECKS
  check_integrity();
#endif
  counters.evictions = blocks.num_evictions();
  const std::size_t events = record.blocks.size();
  record.step = ++num_records;
  if (!sinks.empty()) {
    note_waits();
    record.num_running = static_cast<int>(scheduler.running().size());
    record.num_waiting = static_cast<int>(scheduler.waiting().size());
    record.num_free_blocks = blocks.num_free();
    record.num_blocks = blocks.num_blocks();
    record.num_cached_blocks = blocks.num_cached_free();
    record.totals = counters;
    const auto done = std::make_shared<const StepRecord>(std::move(record));
    for (EventSink* sink : sinks) sink->on_step(done);
  }
  record = {};
  record.blocks.reserve(2 * events);  // so that none of its many small additions moves it
}

void EngineCore::Impl::check_integrity() const {
  blocks.check_integrity();
  scheduler.check_integrity();
  std::size_t live = 0;
  for (const auto& [id, request] : requests) {
    QUIRE_CHECK(id == request->id, index(id));
    if (!request->finished()) ++live;
    if (request->finished()) QUIRE_CHECK(blocks.table(id).empty(), index(id));
  }
  QUIRE_CHECK(live == scheduler.running().size() + scheduler.waiting().size(), live);
  if (live > 0) return;
  QUIRE_CHECK(blocks.num_free() == blocks.num_blocks(), blocks.num_free());
  QUIRE_CHECK(swap.num_free() == swap.num_blocks(), swap.num_free());
}

EngineCore::EngineCore(EngineConfig config, Runner& runner, Clock clock,
                       OutputProcessor* output_processor)
    : impl_(std::make_unique<Impl>(config, runner, std::move(clock), output_processor)) {}

EngineCore::~EngineCore() = default;

void EngineCore::add_sink(EventSink* sink) {
  impl_->sinks.push_back(sink);
  impl_->blocks.set_event_log(&impl_->record.blocks);
}

void EngineCore::remove_sink(EventSink* sink) {
  std::erase(impl_->sinks, sink);
  if (impl_->sinks.empty()) {
    impl_->blocks.set_event_log(nullptr);
    impl_->last_waits.clear();
  }
}

void EngineCore::set_drafter(Drafter* drafter) {
  impl_->drafter = drafter;
}

void EngineCore::set_decision_source(DecisionSource* source) {
  impl_->decisions = source != nullptr ? source : impl_->measured.get();
}

void EngineCore::set_on_finish(FinishHook hook) {
  impl_->on_finish = std::move(hook);
}

Status EngineCore::add_request(std::unique_ptr<Request> request) {
  return impl_->add(std::move(request));
}

bool EngineCore::abort_request(RequestId id) {
  return impl_->abort(id);
}

void EngineCore::cancel_step() {
  impl_->cancel.store(true);
}

std::vector<RequestOutput> EngineCore::step() {
  return impl_->step();
}

bool EngineCore::has_unfinished() const {
  return num_running() + num_waiting() > 0;
}

int EngineCore::num_running() const {
  return static_cast<int>(impl_->scheduler.running().size());
}

int EngineCore::num_waiting() const {
  return static_cast<int>(impl_->scheduler.waiting().size());
}

const EngineConfig& EngineCore::config() const {
  return impl_->config;
}

const EngineCounters& EngineCore::counters() const {
  return impl_->counters;
}

const Request* EngineCore::find(RequestId id) const {
  const auto it = impl_->requests.find(id);
  return it == impl_->requests.end() ? nullptr : it->second.get();
}

WaitState EngineCore::wait_state(RequestId id) const {
  const auto& waiting = impl_->scheduler.waiting();
  const auto it = std::ranges::find(waiting, id, &Request::id);
  if (it == waiting.end()) return {id, WaitReason::kNone, 0};
  return impl_->scheduler.wait_state(**it);
}

Status EngineCore::reconfigure(const EngineConfig& config) {
  return impl_->reconfigure(config);
}

EngineSnapshot EngineCore::snapshot() const {
  EngineSnapshot snapshot;
  snapshot.step = impl_->num_records;
  snapshot.block_size = impl_->config.block_size;
  for (int b = 0; b < impl_->blocks.num_blocks(); ++b)
    snapshot.blocks.push_back(impl_->blocks.view(BlockId{b}));
  const auto add = [&](const Request& request, WaitState wait) {
    const auto table = impl_->blocks.table(request.id);
    snapshot.requests.push_back({request.id,
                                 request.label,
                                 request.status,
                                 request.num_prompt_tokens,
                                 request.num_tokens(),
                                 request.num_computed_tokens,
                                 request.num_cached_tokens,
                                 request.num_preemptions,
                                 request.arrival_time_s,
                                 request.first_token_time_s,
                                 wait,
                                 {table.begin(), table.end()}});
  };
  for (const Request* request : impl_->scheduler.running())
    add(*request, {request->id, WaitReason::kNone, 0});
  const std::vector<WaitState> waits = impl_->scheduler.wait_states();
  for (std::size_t i = 0; i < waits.size(); ++i) add(*impl_->scheduler.waiting()[i], waits[i]);
  snapshot.totals = impl_->counters;
  return snapshot;
}

void EngineCore::reset_prefix_cache() {
  impl_->reset_prefix_cache();
}

void EngineCore::check_integrity() const {
  impl_->check_integrity();
}

}  // namespace quire
