#!/bin/sh
# check_prefetches.sh OBJDUMP OBJECT...: functions that fetch ahead contain prefetch instructions. A compiler may take a
# function that only prefetches for one without effects and drop calls to it, which nothing else would show.
set -eu
objdump=$1
shift
# check SOURCE FUNCTION: FUNCTION, or '' for any, in the object of SOURCE
check() {
  object=$(printf '%s\n' "$objects" | grep "/$1\.cpp\.o$")
  count=$("$objdump" --disassemble --demangle --no-show-raw-insn "$object" | awk -v name="$2" '
    /^[0-9a-f]+ <.*>:$/ { inside = name == "" || index($0, name) > 0 }
    inside && /\tprefetch/ { ++count }
    END { print count + 0 }')
  if [ "$count" -eq 0 ]; then
    echo "$1.cpp: ${2:-every function} prefetches nothing"
    exit 1
  fi
}
objects=$(printf '%s\n' "$@")
check core/hash_chain_index 'HashChainIndex::prefetch('
check core/hash_chain_index 'HashChainIndex::prefetch_victims('
check core/hash_chain_index 'HashChainIndex::prefetch_insert('
check core/block_manager 'BlockManager::prefetch_free('
check cpu/attention 'Attention::run_item('
check cpu/attention_avx2 ''
check cpu/kernels_avx2 ''
