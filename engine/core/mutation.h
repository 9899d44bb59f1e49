#pragma once

namespace quire {

// Faults that a test build can switch on, to show that the random serving test finds them. Without
// QUIRE_MUTATIONS `mutated` is constant and nothing of them is compiled.
enum class Mutation {
  kNone,
  kSlotOffByOne,            // the last row of a chunk is written one slot further
  kStaleComputedTokens,     // a chunk behind a prefix hit is not counted
  kNoTokenLeft,             // a full hit leaves nothing to compute
  kWrongSwapTarget,         // what comes back from the host goes to the table's first block
  kLeakedBlock,             // the first block of a table is not given back
  kDoubleFree,              // the last block of a table is given back twice
  kHashNotWithdrawn,        // a cancelled step's hashes stay findable
  kPartialCopyTooLong,      // a partial match counts one token more than it has
  kAgingIgnored,            // the queue's head is passed over for ever
  kDisplacesEquals,         // equal priority is enough to be displaced
  kDraftSlotsKept,          // rejected drafts keep their blocks
  kSaltIgnored,             // tenants share prefixes
  kAdmitsBesidePreemption,  // a step that preempted admits
  kPromisedBlocksIgnored,   // admission counts on blocks that running requests still need
  kHostBlocksKept,          // host blocks are kept when their request came back
};
inline constexpr int kNumMutations = static_cast<int>(Mutation::kHostBlocksKept) + 1;

#ifdef QUIRE_MUTATIONS
inline Mutation active_mutation = Mutation::kNone;
inline bool mutated(Mutation mutation) {
  return mutation == active_mutation;
}
#else
constexpr bool mutated(Mutation) {
  return false;
}
#endif

}  // namespace quire
