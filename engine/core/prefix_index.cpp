#include "engine/core/prefix_index.h"

namespace quire {

std::unique_ptr<PrefixIndex> make_prefix_index(PrefixIndexKind kind, int num_blocks,
                                               int block_size) {
  return kind == PrefixIndexKind::kRadix ? make_radix_index(num_blocks, block_size)
                                         : make_hash_chain_index(num_blocks, block_size);
}

}  // namespace quire
