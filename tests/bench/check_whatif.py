#!/usr/bin/env python3
"""How close `quire trace whatif` comes to a real run of the same change.

    python3 tests/bench/check_whatif.py build/release/bin/quire MODEL.gguf [--rounds 5] [--set max_num_seqs=2] ...

Each round serves the same requests, at the same moments, three times: with the settings as they are, with them once
more (the null arm), and with the change. The first recording is asked what the change would do; the answer stands
against the changed run's own recording, and the null arm against the first. Prints each round and the medians.
Standard library only.
"""
import argparse
import http.client
import json
import os
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

FIELDS = ("ttft_p50_ms", "itl_p50_ms")


def workload(count, seed):
    """(seconds after start, prompt, max_tokens), arrivals Poisson."""
    dice = random.Random(seed)
    words = [w for w in "time way year work day world life part house number system water money story fact".split()]
    moment, requests = 0.0, []
    for _ in range(count):
        moment += dice.expovariate(1 / 0.8)
        prompt = " ".join(dice.choice(words) for _ in range(dice.randint(60, 500)))
        requests.append((moment, prompt, dice.randint(16, 64)))
    return requests


def ask(port, request):
    body = {"model": "any", "prompt": request[1], "max_tokens": request[2], "temperature": 0, "ignore_eos": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    if response.status != 200:
        raise SystemExit(text.decode())


def serve(program, model, settings, requests, recording):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in (s.split("=", 1) for s in settings)]
    server = subprocess.Popen([program, "serve", "--model", model, "--port", "0", "--record", recording, *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    port = None
    for line in server.stdout:
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found:
            port = int(found.group(1))
            break
    if port is None:
        raise SystemExit("the server did not start")
    threading.Thread(target=server.stdout.read, daemon=True).start()
    start = time.monotonic()
    threads = []
    for request in requests:
        time.sleep(max(0.0, start + request[0] - time.monotonic()))
        threads.append(threading.Thread(target=ask, args=(port, request)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    server.send_signal(signal.SIGINT)
    server.wait(60)


def what_if(program, recording, settings):
    flags = [part for setting in settings for part in ("--set", setting)]
    out = subprocess.run([program, "trace", "whatif", recording, "--json", *flags], check=True, capture_output=True)
    return json.loads(out.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--base", action="append", default=[], help="a setting of all runs")
    parser.add_argument("--set", action="append", default=[], dest="change")
    options = parser.parse_args()
    change = options.change or ["max_num_seqs=2"]
    requests = workload(options.requests, 1)
    columns = {field: {"predicted": [], "real": [], "first": [], "null": []} for field in FIELDS}
    with tempfile.TemporaryDirectory() as folder:
        for round_number in range(1, options.rounds + 1):
            paths = {}
            for name, settings in (("first", []), ("changed", change), ("null", [])):
                paths[name] = os.path.join(folder, f"{round_number}-{name}.quiretrace")
                serve(options.program, options.model, options.base + settings, requests, paths[name])
            prediction = what_if(options.program, paths["first"], change)
            changed = what_if(options.program, paths["changed"], [])
            null = what_if(options.program, paths["null"], [])
            for field in FIELDS:
                values = {"predicted": prediction["changed"][field], "real": changed["recorded"][field],
                          "first": prediction["recorded"][field], "null": null["recorded"][field]}
                for name, value in values.items():
                    columns[field][name].append(value)
                print(f"round {round_number} {field:12} predicted {values['predicted']:9.1f} real {values['real']:9.1f}"
                      f"   unchanged {values['first']:9.1f} and again {values['null']:9.1f}", flush=True)
    for field in FIELDS:
        medians = {name: statistics.median(values) for name, values in columns[field].items()}
        spread = statistics.median(abs(a / b - 1) for a, b in zip(columns[field]["null"], columns[field]["first"]))
        print(f"{field:12} medians: predicted {medians['predicted']:.1f}, real {medians['real']:.1f}: "
              f"off by {abs(medians['predicted'] / medians['real'] - 1):.1%}; null arm {spread:.1%} apart; "
              f"unchanged {medians['first']:.1f}")


if __name__ == "__main__":
    main()
