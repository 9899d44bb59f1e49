#!/usr/bin/env python3
"""Writes the small seed files of the recording fuzzer, tests/fuzz/seeds/trace.

Needs a built `quire`: make_trace_seeds.py path/to/quire. Times differ from run to run.
"""
import concurrent.futures
import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

SEEDS = Path(__file__).resolve().parents[1] / "fuzz" / "seeds" / "trace"


def post(address, body):
    request = urllib.request.Request(address + "/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def record(quire, name, flags, bodies, at_once):
    path = SEEDS / name
    path.unlink(missing_ok=True)
    server = subprocess.Popen([quire, "serve", "-m", "builtin:tiny", "--backend", "reference",
                               "--port", "0", "--record", path, *flags],
                              stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if "listening on" in line:
            address = line.split()[-1]
        if "recording to" in line:
            break
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda body: post(address, {"model": "builtin:tiny", **body}), bodies))
    server.send_signal(signal.SIGINT)
    server.communicate()
    print(name, path.stat().st_size, "bytes")


def main():
    quire = sys.argv[1]
    SEEDS.mkdir(parents=True, exist_ok=True)
    hello = {"prompt": "hello, world", "max_tokens": 4, "seed": 1}
    record(quire, "one_request", ["--num-blocks", "12"], [hello], 1)
    stories = [{"prompt": f"a story of {i}" * 2, "max_tokens": 12, "seed": i, "stop": ["e"]}
               for i in range(4)]
    record(quire, "full_pool", ["--num-blocks", "12", "--block-size", "4"], stories, 4)
    record(quire, "never_asked", ["--num-blocks", "4"], [], 1)


main()
