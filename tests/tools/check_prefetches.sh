#!/bin/sh
# check_prefetches.sh OBJDUMP OBJECT...: the prefix index's prefetching functions contain prefetch instructions. A compiler
# may take a function that only prefetches for one without effects and drop calls to it, which nothing else would show.
set -eu
objdump=$1
shift
set -- "$objdump" --disassemble --demangle --no-show-raw-insn $(printf '%s\n' "$@" | grep -E 'hash_chain_index|block_manager')
listing=$("$@")
for function in 'HashChainIndex::prefetch(' 'HashChainIndex::prefetch_victims(' 'HashChainIndex::prefetch_insert(' \
    'BlockManager::prefetch_free('; do
  count=$(printf '%s\n' "$listing" | awk -v name="$function" '
    /^[0-9a-f]+ <.*>:$/ { inside = index($0, name) > 0 }
    inside && /\tprefetch/ { ++count }
    END { print count + 0 }')
  if [ "$count" -eq 0 ]; then
    echo "$function) prefetches nothing"
    exit 1
  fi
done
