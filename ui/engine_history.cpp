#include "ui/engine_history.h"

#include <algorithm>
#include <utility>

namespace quire {
namespace {

bool isDecode(WorkKind kind) {
  return kind == WorkKind::kDecode || kind == WorkKind::kVerify;
}

}  // namespace

void EngineHistory::clear() {
  *this = EngineHistory();
}

void EngineHistory::apply(const EngineFrame& frame) {
  m_now = frame.nowSeconds;
  if (frame.lost > 0) {
    m_lost += frame.lost;
    m_needsSnapshot = true;
  }
  // Records count those that came before their steps began, a snapshot those that it has.
  const double counted = frame.records.empty() ? -1 : frame.records.back()->times.start_s;
  int uncounted = 0;
  for (const ArrivalInfo& arrival : frame.arrivals) {
    if (arrival.timeSeconds > counted && this->lane(arrival.request) == nullptr) ++uncounted;
    Lane& lane = ensureLane(arrival.request, arrival.timeSeconds);
    lane.label = arrival.label;
    lane.promptTokens = arrival.promptTokens;
  }
  for (const auto& record : frame.records) applyStep(*record);
  m_waiting += uncounted;
}

void EngineHistory::rejoin(const EngineSnapshot& snapshot) {
  m_needsSnapshot = false;
  m_snapshotStep = snapshot.step;
  m_blockSize = snapshot.block_size;
  m_totals = snapshot.totals;
  m_allChanged = true;
  // A snapshot does not know whose contents a free block still holds; keep what was seen.
  std::vector<BlockCell> before = std::exchange(m_blocks, {});
  before.resize(snapshot.blocks.size());
  m_blocks.assign(snapshot.blocks.size(), {});
  m_freeBlocks = m_cachedBlocks = 0;
  for (std::size_t i = 0; i < snapshot.blocks.size(); ++i) {
    const BlockView& view = snapshot.blocks[i];
    m_blocks[i] = {view.ref_count, view.hashed, view.owner, -1, false};
    if (view.owner == kNoRequest && view.hashed && before[i].hashed)
      m_blocks[i].owner = before[i].owner;
    if (view.ref_count == 0) ++m_freeBlocks;
    if (view.ref_count == 0 && view.hashed) ++m_cachedBlocks;
  }
  m_running = m_waiting = 0;
  std::unordered_map<qint64, const RequestView*> live;
  for (const RequestView& view : snapshot.requests) {
    live.emplace(index(view.id), &view);
    ++(view.status == RequestStatus::kRunning ? m_running : m_waiting);
    Lane& lane = ensureLane(view.id, view.arrival_time_s);
    lane.label = QString::fromStdString(view.label);
    lane.promptTokens = view.num_prompt_tokens;
    lane.outputTokens = view.num_tokens - view.num_prompt_tokens;
    lane.cachedTokens = view.num_cached_tokens;
    lane.preemptions = view.num_preemptions;
    lane.firstTokenSeconds = view.first_token_time_s;
    lane.wait = view.wait;
  }
  // What ended while nobody looked cannot be told apart from an abort any more.
  for (Lane& lane : m_lanes) {
    if (lane.live() && !live.contains(index(lane.request))) {
      lane.finish = FinishReason::kAborted;
      lane.endSeconds =
          lane.segments.empty() ? lane.arrivalSeconds : lane.segments.back().endSeconds;
    }
  }
}

const Lane* EngineHistory::lane(RequestId request) const {
  const auto it = std::find_if(m_lanes.rbegin(), m_lanes.rend(),
                               [&](const Lane& lane) { return lane.request == request; });
  return it == m_lanes.rend() ? nullptr : &*it;
}

int EngineHistory::sharedBlocks() const {
  return static_cast<int>(std::count_if(m_blocks.begin(), m_blocks.end(),
                                        [](const BlockCell& cell) { return cell.refCount > 1; }));
}

std::vector<int> EngineHistory::takeChangedBlocks(bool& all) {
  all = std::exchange(m_allChanged, false);
  std::vector<int> changed = std::exchange(m_changed, {});
  if (all) changed.clear();
  return changed;
}

void EngineHistory::applyStep(const StepRecord& record) {
  if (record.step <= m_snapshotStep) return;
  const double begin = record.times.start_s;
  const double end = begin + static_cast<double>(record.times.total_us()) * 1e-6;
  m_now = std::max(m_now, end);
  if (m_blocks.size() != static_cast<std::size_t>(record.num_blocks)) {
    m_blocks.assign(static_cast<std::size_t>(std::max(0, record.num_blocks)), {});
    m_allChanged = true;
    m_needsSnapshot = true;
  }
  for (const BlockEvent& event : record.blocks) applyBlockEvent(event, end);
  m_totals = record.totals;
  m_running = record.num_running;
  m_waiting = record.num_waiting;
  m_freeBlocks = record.num_free_blocks;
  m_cachedBlocks = record.num_cached_blocks;
  applyWork(record, begin, end);
}

void EngineHistory::applyBlockEvent(const BlockEvent& event, double seconds) {
  BlockCell* target = cell(event.block);
  if (target == nullptr) return;
  target->changedSeconds = seconds;
  if (!m_allChanged) m_changed.push_back(index(event.block));
  switch (event.kind) {
    case BlockEventKind::kAlloc:
      target->refCount = 1;
      target->owner = event.request;
      break;
    case BlockEventKind::kAdopt:
      if (target->refCount++ == 0) target->owner = event.request;
      target->evicted = false;
      break;
    case BlockEventKind::kPublish:
      target->hashed = true;
      target->evicted = false;
      break;
    case BlockEventKind::kWithdraw:
      target->hashed = false;
      break;
    case BlockEventKind::kEvict:
      target->hashed = false;
      target->evicted = true;
      break;
    case BlockEventKind::kRelease:
      target->refCount = std::max(1, target->refCount - 1);
      break;
    case BlockEventKind::kFree:
      target->refCount = 0;
      target->evicted = false;
      break;
  }
}

void EngineHistory::applyWork(const StepRecord& record, double begin, double end) {
  StepBar bar;
  bar.step = record.step;
  bar.beginSeconds = begin;
  bar.budget = record.token_budget;
  bar.prefillLimit = record.prefill_limit;
  bar.chunkLimit = record.chunk_limit;
  bar.totalMs = record.times.total_us() * 1e-3f;
  bar.forwardMs = record.times.forward_us * 1e-3f;
  bar.preemptions = static_cast<int>(record.preempted.size());
  bar.admissions = static_cast<int>(record.admitted.size());
  bar.outcome = record.outcome;
  bar.work = record.scheduled;
  bar.evictions = static_cast<int>(
      std::count_if(record.blocks.begin(), record.blocks.end(),
                    [](const BlockEvent& event) { return event.kind == BlockEventKind::kEvict; }));
  const bool completed = record.outcome == StepOutcome::kCompleted;
  for (const ScheduledWork& work : record.scheduled) {
    bar.cachedTokens += work.num_cached_tokens;
    (isDecode(work.kind) ? bar.decodeTokens : bar.prefillTokens) += work.num_tokens;
    if (!completed) continue;
    Lane& lane = ensureLane(work.request, begin);
    lane.wait = {};
    if (work.num_cached_tokens > 0) lane.cachedTokens += work.num_cached_tokens;
    const bool decode = isDecode(work.kind);
    LaneSegment* last = lane.segments.empty() ? nullptr : &lane.segments.back();
    if (decode && last != nullptr && last->kind == LaneKind::kDecode) {
      last->endSeconds = end;
      last->tokens += work.num_tokens;
      last->lastStep = record.step;
    } else {
      lane.segments.push_back({decode ? LaneKind::kDecode : LaneKind::kPrefill, begin, end,
                               work.num_tokens, work.num_cached_tokens, record.step, record.step});
    }
  }
  for (const Preemption& preemption : record.preempted) {
    Lane& lane = ensureLane(preemption.victim, begin);
    ++lane.preemptions;
    lane.segments.push_back({LaneKind::kPreempted, begin, end, 0, 0, record.step, record.step});
  }
  for (const SampledToken& token : record.sampled) {
    Lane& lane = ensureLane(token.request, begin);
    if (lane.outputTokens++ == 0) lane.firstTokenSeconds = end;
  }
  for (const WaitState& wait : record.waits) ensureLane(wait.request, begin).wait = wait;
  for (const FinishRecord& finish : record.finished) {
    Lane& lane = ensureLane(finish.request, begin);
    lane.finish = finish.reason;
    lane.outputTokens = finish.num_output_tokens;
    lane.endSeconds = end;
  }
  if (record.scheduled.empty() && record.preempted.empty()) return;  // an abort between two steps
  addPoint(record, end, completed ? bar.prefillTokens : 0, completed ? bar.decodeTokens : 0);
  m_steps.push_back(std::move(bar));
  if (m_steps.size() > kMaxSteps) m_steps.pop_front();
}

void EngineHistory::addPoint(const StepRecord& record, double end, int prefill, int decode) {
  if (m_intervalBegin < 0) m_intervalBegin = record.times.start_s;
  m_intervalPrefill += prefill;
  m_intervalDecode += decode;
  const double elapsed = end - m_intervalBegin;
  if (elapsed < kPlotInterval) return;
  PlotPoint point;
  point.seconds = end;
  if (record.num_blocks > 0) {
    point.usedShare = 1.0 - static_cast<double>(record.num_free_blocks) / record.num_blocks;
    point.cachedShare = static_cast<double>(record.num_cached_blocks) / record.num_blocks;
  }
  if (record.totals.prefix_cache_queries > 0) {
    point.hitRate = static_cast<double>(record.totals.prefix_cache_hits) /
                    static_cast<double>(record.totals.prefix_cache_queries);
  }
  point.preemptions = static_cast<double>(record.totals.preemptions);
  point.prefillRate = m_intervalPrefill / elapsed;
  point.decodeRate = m_intervalDecode / elapsed;
  m_points.push_back(point);
  if (m_points.size() > kMaxPoints) m_points.pop_front();
  m_intervalBegin = end;
  m_intervalPrefill = m_intervalDecode = 0;
}

Lane& EngineHistory::ensureLane(RequestId request, double seconds) {
  const auto it = std::find_if(m_lanes.rbegin(), m_lanes.rend(),
                               [&](const Lane& lane) { return lane.request == request; });
  if (it != m_lanes.rend()) return *it;
  if (m_lanes.size() >= kMaxLanes) {
    const auto ended =
        std::find_if(m_lanes.begin(), m_lanes.end(), [](const Lane& lane) { return !lane.live(); });
    m_lanes.erase(ended != m_lanes.end() ? ended : m_lanes.begin());
  }
  Lane lane;
  lane.request = request;
  lane.arrivalSeconds = seconds;
  m_lanes.push_back(std::move(lane));
  return m_lanes.back();
}

BlockCell* EngineHistory::cell(BlockId block) {
  const auto at = static_cast<std::size_t>(index(block));
  return index(block) >= 0 && at < m_blocks.size() ? &m_blocks[at] : nullptr;
}

}  // namespace quire
