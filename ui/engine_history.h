#pragma once

#include <QString>
#include <QtGlobal>
#include <deque>
#include <unordered_map>
#include <vector>

#include "engine/core/step_record.h"
#include "ui/engine_client.h"

namespace quire {

// One physical block as the block map shows it.
struct BlockCell {
  int refCount = 0;
  bool hashed = false;           // free and hashed: cached, can be adopted again
  RequestId owner = kNoRequest;  // who took it first since it was last free; kept for cached blocks
  double changedSeconds = -1;    // when it last changed, on the engine's clock
  bool evicted = false;          // its last change gave cached contents up
};

// One step as the step bars show it. Tokens.
struct StepBar {
  quint64 step = 0;
  double beginSeconds = 0;
  int decodeTokens = 0, prefillTokens = 0, cachedTokens = 0;
  int budget = 0, chunkLimit = 0;
  int prefillLimit = 0;  // of all prompts together
  float totalMs = 0, forwardMs = 0;
  int preemptions = 0, admissions = 0, evictions = 0;
  StepOutcome outcome = StepOutcome::kCompleted;
  std::vector<ScheduledWork> work;
};

enum class LaneKind { kQueued, kPrefill, kDecode, kPreempted };

// A stretch of one request's life; neighbouring decode steps are one segment, each prefill chunk
// its own.
struct LaneSegment {
  LaneKind kind = LaneKind::kQueued;
  double beginSeconds = 0, endSeconds = 0;
  int tokens = 0;        // computed in it
  int cachedTokens = 0;  // adopted at its admission instead of computed
  quint64 firstStep = 0, lastStep = 0;
};

struct Lane {
  RequestId request = kNoRequest;
  QString label;
  double arrivalSeconds = 0, firstTokenSeconds = -1, endSeconds = -1;  // -1: not yet
  int promptTokens = 0, outputTokens = 0, cachedTokens = 0, preemptions = 0;
  FinishReason finish = FinishReason::kNone;
  std::vector<LaneSegment> segments;
  WaitState wait;  // its reason while it waits
  bool live() const { return finish == FinishReason::kNone; }
};

// One point of the plots.
struct PlotPoint {
  double seconds = 0;
  double usedShare = 0, cachedShare = 0;  // of the pool's blocks
  double hitRate = 0;                     // prefix hits / queries since the engine began, in tokens
  double preemptions = 0;                 // since the engine began
  double prefillRate = 0, decodeRate = 0;  // tokens per second over the last interval
};

// Turns the engine's records into what the views draw. One per window; GUI thread; no widget in
// here.
class EngineHistory {
 public:
  static constexpr std::size_t kMaxSteps = 2000;
  static constexpr std::size_t kMaxLanes = 200;
  static constexpr std::size_t kMaxPoints = 3000;
  static constexpr double kPlotInterval = 0.25;  // seconds a plot point sums up

  void clear();
  void apply(const EngineFrame& frame);
  // Replaces blocks and live requests with the engine's own account, after records were lost or at
  // the start.
  void rejoin(const EngineSnapshot& snapshot);

  // Records will be missing before the next frame; a snapshot is needed to go on.
  void expectGap() { m_needsSnapshot = true; }
  // True until the first snapshot and after a loss: what is shown may be incomplete.
  bool needsSnapshot() const { return m_needsSnapshot; }
  const std::vector<BlockCell>& blocks() const { return m_blocks; }
  const std::deque<StepBar>& steps() const { return m_steps; }
  const std::deque<Lane>& lanes() const { return m_lanes; }  // by arrival
  const std::deque<PlotPoint>& points() const { return m_points; }
  const EngineCounters& totals() const { return m_totals; }
  const Lane* lane(RequestId request) const;
  int blockSize() const { return m_blockSize; }
  int running() const { return m_running; }
  int waiting() const { return m_waiting; }
  int freeBlocks() const { return m_freeBlocks; }
  int cachedBlocks() const { return m_cachedBlocks; }
  int sharedBlocks() const;
  double nowSeconds() const { return m_now; }
  quint64 lostRecords() const { return m_lost; }
  // Indices of blocks that changed since the last call, for views that patch; empty with `all` set:
  // redraw.
  std::vector<int> takeChangedBlocks(bool& all);

 private:
  void applyStep(const StepRecord& record);
  void applyBlockEvent(const BlockEvent& event, double seconds);
  void applyWork(const StepRecord& record, double begin, double end);
  void addPoint(const StepRecord& record, double end, int prefill, int decode);
  Lane& ensureLane(RequestId request, double seconds);
  BlockCell* cell(BlockId block);

  std::vector<BlockCell> m_blocks;
  std::vector<int> m_changed;
  bool m_allChanged = true;
  std::deque<StepBar> m_steps;
  std::deque<Lane> m_lanes;
  std::deque<PlotPoint> m_points;
  EngineCounters m_totals;
  int m_blockSize = 16, m_running = 0, m_waiting = 0, m_freeBlocks = 0, m_cachedBlocks = 0;
  quint64 m_snapshotStep = 0;  // records up to here are in the snapshot already
  quint64 m_lost = 0;
  double m_now = 0;
  double m_intervalBegin = -1;
  int m_intervalPrefill = 0, m_intervalDecode = 0;
  bool m_needsSnapshot = true;
};

}  // namespace quire
