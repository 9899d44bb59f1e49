"""llama.cpp through its batch API, doing the work that `quire bench model` times.

The settings are those of its server: n_batch 2048, n_ubatch 512, one KV buffer for all sequences, F16 KV, flash
attention as it chooses. Token values do not matter for the work done, so nothing is sampled.
"""
import ctypes
import random
import time

import llama_cpp

BATCH, MICRO_BATCH = 2048, 512
OWN_TOKENS, OUTPUT_TOKENS = 20, 32  # of a request with a shared prefix, as in engine/runner/bench_model.h


@llama_cpp.llama_log_callback
def _quiet(_level, _text, _user_data):
    pass


class Stopwatch:
    """Wall and CPU seconds (of all threads) since it was made."""

    def __init__(self):
        self.start = time.perf_counter(), time.process_time()

    def read(self):
        return time.perf_counter() - self.start[0], time.process_time() - self.start[1]


def system_info():
    return llama_cpp.llama_print_system_info().decode().strip(" |")


class Peer:
    def __init__(self, path, threads, cells, sequences, unified):
        """`cells`: tokens of all sequences together; unless `unified`, each has an equal share of them."""
        llama_cpp.llama_log_set(_quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = cells
        params.n_batch, params.n_ubatch = BATCH, MICRO_BATCH
        params.n_seq_max = sequences
        params.kv_unified = unified
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp cannot make a context of {cells} tokens")
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        dice = random.Random(1)
        self.tokens = [dice.randrange(vocab - 10) for _ in range(8192)]
        self.filled = None  # (sequences, depth) held by the KV buffer

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def _compute(self, rows):
        """rows: (sequence, position, wants logits), at most BATCH."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (sequence, position, logits) in enumerate(rows):
            batch.token[i] = self.tokens[(position + 977 * sequence) % len(self.tokens)]
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = logits
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def _prompt(self, sequence, begin, end):
        for start in range(begin, end, BATCH):
            stop = min(end, start + BATCH)
            self._compute([(sequence, i, i == end - 1) for i in range(start, stop)])

    def _clear(self):
        llama_cpp.llama_memory_clear(self.memory, True)
        self.filled = None

    def prefill(self, length):
        """This and what follows: Stopwatch.read() of the work."""
        self._clear()
        watch = Stopwatch()
        self._prompt(0, 0, length)
        return watch.read()

    def decode(self, sequences, depth, steps):
        """`steps` tokens of each sequence behind `depth` tokens of its own."""
        depth = max(1, depth)
        if self.filled == (sequences, depth):
            for s in range(sequences):
                llama_cpp.llama_memory_seq_rm(self.memory, s, depth, -1)
        else:
            self._clear()
            for s in range(sequences):
                self._prompt(s, 0, depth)
            self.filled = (sequences, depth)
        return self._decode(sequences, depth, steps)

    def _decode(self, sequences, depth, steps):
        watch = Stopwatch()
        for i in range(steps):
            self._compute([(s, depth + i, True) for s in range(sequences)])
        return watch.read()

    def shared_prefix(self, requests, prefix):
        """Requests that arrive at once, as its server runs them when no slot holds the prefix: prompts in
        order of arrival into batches of BATCH, after a token of each request that is decoding."""
        self._clear()
        prompt = prefix + OWN_TOKENS
        end = prompt + OUTPUT_TOKENS - 1  # the last output is not computed
        done = [0] * requests
        watch = Stopwatch()
        while any(n < end for n in done):
            rows = []
            for s, n in enumerate(done):
                if prompt <= n < end:
                    rows.append((s, n, True))
                    done[s] += 1
            for s, n in enumerate(done):
                take = min(prompt - n, BATCH - len(rows))
                if take > 0:
                    rows += [(s, n + i, n + i == prompt - 1) for i in range(take)]
                    done[s] += take
            self._compute(rows)
        return watch.read()

    def copied_prefix(self, requests, prefix):
        """The same work where a caller knows the prefix: computed once, its cells shared with llama_memory_seq_cp."""
        self._clear()
        watch = Stopwatch()
        self._prompt(0, 0, prefix)
        for s in range(1, requests):
            llama_cpp.llama_memory_seq_cp(self.memory, 0, s, -1, -1)
        last = prefix + OWN_TOKENS - 1
        self._compute([(s, i, i == last) for s in range(requests) for i in range(prefix, last + 1)])
        self._decode(requests, last + 1, OUTPUT_TOKENS - 1)
        return watch.read()
