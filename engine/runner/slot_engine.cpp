#include "engine/runner/slot_engine.h"

#include <algorithm>

#include "engine/runner/direct_step.h"
#include "kernels/check.h"

namespace quire {

SlotEngine::SlotEngine(Runner& runner, int num_slots, int slot_tokens, int prefill_chunk,
                       int block_size)
    : runner_(runner),
      slot_tokens_(slot_tokens),
      prefill_chunk_(prefill_chunk),
      block_size_(block_size),
      slots_(static_cast<std::size_t>(num_slots)) {
  QUIRE_CHECK(slot_tokens % block_size == 0, slot_tokens, block_size);
  int next = 0;
  for (Slot& slot : slots_)
    for (int i = 0; i < slot_tokens / block_size; ++i) slot.blocks.push_back(BlockId{next++});
}

void SlotEngine::add_request(Request request) {
  QUIRE_CHECK(request.num_prompt_tokens + request.params.max_tokens <= slot_tokens_,
              request.num_prompt_tokens, request.params.max_tokens, slot_tokens_);
  requests_.push_back(std::move(request));
}

void SlotEngine::step() {
  admit();
  prefill();
  decode();
}

void SlotEngine::admit() {
  for (Slot& slot : slots_) {
    if (next_waiting_ == requests_.size()) return;
    if (slot.request != nullptr) continue;
    slot.request = &requests_[next_waiting_++];
    slot.request->status = RequestStatus::kRunning;
  }
}

void SlotEngine::prefill() {
  for (const Slot& slot : slots_) {
    if (slot.request == nullptr || slot.request->decoding()) continue;
    const int left = slot.request->num_tokens() - slot.request->num_computed_tokens;
    const DirectEntry entry{slot.request, std::min(left, prefill_chunk_), slot.blocks};
    run_direct_step(runner_, {&entry, 1}, block_size_);
  }
  release_finished();
}

void SlotEngine::decode() {
  std::vector<DirectEntry> entries;
  for (const Slot& slot : slots_)
    if (slot.request != nullptr && slot.request->decoding())
      entries.push_back({slot.request, 1, slot.blocks});
  if (entries.empty()) return;
  run_direct_step(runner_, entries, block_size_);
  release_finished();
}

void SlotEngine::release_finished() {
  for (Slot& slot : slots_) {
    if (slot.request == nullptr ||
        slot.request->num_output_tokens() < slot.request->params.max_tokens)
      continue;
    slot.request->status = RequestStatus::kFinished;
    slot.request = nullptr;
    ++num_finished_;
  }
}

}  // namespace quire
