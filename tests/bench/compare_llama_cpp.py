#!/usr/bin/env python3
"""Decode and prefill speed of Quire and llama.cpp on the same file, threads and machine, rounds interleaved.

    python3 -m venv V && V/bin/pip install --no-binary llama-cpp-python llama-cpp-python
    V/bin/python compare_llama_cpp.py build/release/bin/quire MODEL.gguf [--threads 2] [--rounds 5]

Each round: `quire bench model` (prefill 512, decode 128, one stream), then llama.cpp through its batch API doing the
same, then llama.cpp again as the null arm. Prints the medians, their ratios and the null arm's.
"""
import argparse
import ctypes
import json
import statistics
import subprocess
import time

import llama_cpp


class Peer:
    """llama.cpp with one sequence."""

    def __init__(self, path, threads, context):
        llama_cpp.llama_log_set(self._quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), model_params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = 2048
        params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    @staticmethod
    @llama_cpp.llama_log_callback
    def _quiet(level, text, user_data):
        pass

    def info(self):
        return llama_cpp.llama_print_system_info().decode()

    def decode(self, tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def run(self, prefill, decode):
        """Tokens per second of each phase. Token values do not matter for the work done."""
        self.clear()
        prompt = [(7919 * i + 13) % (self.vocab - 10) for i in range(prefill)]
        start = time.perf_counter()
        self.decode(prompt)
        prefill_rate = prefill / (time.perf_counter() - start)
        self.clear()
        self.decode(prompt[:1])
        start = time.perf_counter()
        for i in range(decode):
            self.decode([prompt[i % prefill]])
        return prefill_rate, decode / (time.perf_counter() - start)


def quire(program, model, threads, prefill, decode):
    out = subprocess.run([program, "bench", "model", model, "--prompt", str(prefill), "--decode", str(decode),
                          "--threads", str(threads), "--rounds", "1", "--json"], check=True, capture_output=True, text=True)
    result = json.loads(out.stdout.strip().splitlines()[-1])
    return result["prefill_tok_s"], result["decode_tok_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    arguments = parser.parse_args()
    peer = Peer(arguments.model, arguments.threads, arguments.prefill + arguments.decode + 64)
    print("llama.cpp (llama-cpp-python", llama_cpp.__version__ + "):", peer.info().strip())
    peer.run(arguments.prefill, arguments.decode)  # warm-up
    arms = {"quire": [], "llama.cpp": [], "llama.cpp again": []}
    for _ in range(arguments.rounds):
        arms["quire"].append(quire(arguments.quire, arguments.model, arguments.threads, arguments.prefill,
                                   arguments.decode))
        arms["llama.cpp"].append(peer.run(arguments.prefill, arguments.decode))
        arms["llama.cpp again"].append(peer.run(arguments.prefill, arguments.decode))
    base = [statistics.median(values) for values in zip(*arms["llama.cpp"])]
    print(f"{'':18}{'prefill tok/s':>15}{'ratio':>8}{'decode tok/s':>15}{'ratio':>8}")
    for name, rows in arms.items():
        median = [statistics.median(values) for values in zip(*rows)]
        print(f"{name:18}{median[0]:15.1f}{median[0] / base[0]:8.2f}{median[1]:15.1f}{median[1] / base[1]:8.2f}")


if __name__ == "__main__":
    main()
