#include "engine/core/prefix_index.h"

namespace quire {

std::unique_ptr<PrefixIndex> make_radix_index(int num_blocks, int block_size) {
  return make_hash_chain_index(num_blocks, block_size);
}

}  // namespace quire
