#!/usr/bin/env python3
"""Speed of Quire and llama.cpp on the same files, threads and machine, rounds interleaved.

    python3 -m venv V && CC=clang CXX=clang++ V/bin/pip install --no-binary llama-cpp-python llama-cpp-python
    V/bin/python tests/bench/compare_llama_cpp.py build/release/bin/quire MODEL.gguf [MODEL.gguf ...] [--threads 2]

Each round of each case is Quire (`quire bench model --paced`), then llama.cpp through its batch API, then llama.cpp
again as the null arm, which shows the noise. Prints a Markdown table of medians; ratios above 1 say that Quire is
faster, and the last column how much of the machine other programs had meanwhile: a busy machine delays the many
barriers of the peer more than Quire's. There the ratio in CPU time is the one to read, with --threads 1, since
threads that wait for each other use CPU time too. --results FILE keeps the rounds: a later run with other cases or
files adds to it, and the table shows all.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

import llama_cpp

import llama_cpp_peer as peer_module

STEPS = 64  # decoded tokens of each stream
NULL = "again"
ARMS = ("quire", "peer", NULL)


class Quire:
    """One `quire bench model --paced`: every call is its next round."""

    def __init__(self, options, model, arguments):
        environment = dict(os.environ)
        if options.isa:
            environment["QUIRE_CPU_ISA"] = options.isa
        command = [options.quire, "bench", "model", model, "--threads", str(options.threads), "--paced", "--rounds",
                   str(options.rounds), "--decode", str(STEPS), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def round(self, kind, size):
        """The next round of that series; rounds of series before it that nobody asked for are passed over."""
        while True:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"quire ended before {kind} {size}")
            done = json.loads(line)
            if (done["kind"], done["size"]) == (kind, size):
                return done

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("quire failed")


class OtherLoad:
    """What other programs took of the machine's CPU time between start and stop, 0 to 1."""

    def __init__(self, pids):
        self.files = [f"/proc/{pid}/stat" for pid in pids]
        self.start = self._read()

    def _read(self):
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(x) for x in file.readline().split()[1:9]]
        own = 0
        for path in self.files:
            with open(path, encoding="ascii", errors="replace") as file:
                own += sum(int(x) for x in file.read().rsplit(")", 1)[1].split()[11:13])
        return sum(fields), fields[3] + fields[4], own

    def stop(self):
        total, idle, own = (now - then for now, then in zip(self._read(), self.start))
        return max(0.0, (total - idle - own) / total) if total else 0.0


def whole_numbers(text):
    return [int(part) for part in text.split(",")] if text != "none" else []


def listed(values):
    return ",".join(map(str, values)) or "none"


def decoding(streams, depth):
    name = f"{streams} streams at {depth}" if streams > 1 else f"decode at {depth}"
    series = ("parallel", streams) if streams > 1 else ("decode", depth)
    return name, series, [("", lambda p: p.decode(streams, depth, STEPS))]


def cases(options):
    """(Quire's arguments, [(name, its series, [(label, the peer's work)])]) of each of its processes, in the order it
    measures."""
    plain = [(f"prefill {n}", ("prefill", n), [("", lambda p, n=n: p.prefill(n))]) for n in options.prefill]
    alone = [d for d in options.depth if d != options.parallel_depth or not options.parallel]
    plain += [decoding(1, d) for d in alone]
    yield ["--prompt", listed(options.prefill), "--depth", listed(alone), "--parallel", "none"], plain
    # Quire decodes one stream at the depth before it decodes several.
    streams = [decoding(n, options.parallel_depth) for n in [1, *options.parallel]] if options.parallel else []
    yield ["--prompt", "none", "--depth", str(options.parallel_depth), "--parallel", listed(options.parallel)], streams
    n, prefix = options.shared_requests, options.shared_prefix
    shared = [(f"{n} requests, new prefix {prefix}", ("shared_prefix", n),
               [("", lambda p: p.shared_prefix(n, prefix)),
                (", peer copies it", lambda p: p.copied_prefix(n, prefix))])] if prefix else []
    yield ["--prompt", "none", "--depth", "none", "--parallel", str(n), "--shared-prefix", str(prefix)], shared


def measure(options, model, peer, results, save):
    for arguments, group in cases(options):
        if not group:
            continue
        quire = Quire(options, model, arguments)
        for name, series, works in group:
            rows = [results.setdefault(name + label, {"quire": [], "peer": [], NULL: [], "tokens": 0})
                    for label, _ in works]
            for row in rows:
                row.update({"quire": [], "peer": [], NULL: []})
            load = OtherLoad([os.getpid(), quire.process.pid])
            for _ in range(options.rounds):
                mine = quire.round(*series)
                for row, (_, work) in zip(rows, works):
                    row["tokens"] = mine["tokens"]
                    row["quire"].append((mine["seconds"], mine["cpu_seconds"]))
                    row["peer"].append(work(peer))
                    row[NULL].append(work(peer))
            for row, (label, _) in zip(rows, works):
                row["others"] = load.stop()
                print(f"{pathlib.Path(model).name:24} {name + label:40} {summary(row)}", file=sys.stderr, flush=True)
            save()
        quire.close()


def columns(row):
    """Median wall seconds of each arm, then ratios: wall; of the rounds, least and greatest; null arm; CPU time."""
    wall = {arm: [seconds for seconds, _ in row[arm]] for arm in ARMS}
    cpu = {arm: statistics.median(cpu for _, cpu in row[arm]) for arm in ARMS}
    median = {arm: statistics.median(wall[arm]) for arm in ARMS}
    of_rounds = [peer / mine for mine, peer in zip(wall["quire"], wall["peer"])]
    return median, (median["peer"] / median["quire"], min(of_rounds), max(of_rounds), median["peer"] / median[NULL],
                    cpu["peer"] / cpu["quire"])


def cells(name, row):
    median, (ratio, low, high, null, cpu) = columns(row)
    if "requests" in name:
        mine, other = f"{median['quire']:.2f} s", f"{median['peer']:.2f} s"
    else:
        mine, other = (f"{row['tokens'] / median[arm]:.1f} tok/s" for arm in ("quire", "peer"))
    return (mine, other, f"{ratio:.2f}", f"{low:.2f}..{high:.2f} ({len(row['quire'])})", f"{null:.2f}", f"{cpu:.2f}",
            f"{row['others']:.0%}")


def summary(row):
    _, (ratio, low, high, null, cpu) = columns(row)
    return f"ratio {ratio:.2f} ({low:.2f}..{high:.2f})  null {null:.2f}  CPU {cpu:.2f}  others {row['others']:.0%}"


def table(results, header):
    lines = [header, "", "| model | case | Quire | llama.cpp | ratio | of the rounds (how many) | peer / peer again | ratio in CPU time |"
             " others' CPU |", "|---|---|---|---|---|---|---|---|---|"]
    for model, rows in results.items():
        lines += ["| " + " | ".join((model, name, *cells(name, row))) + " |" for name, row in rows.items()]
    return "\n".join(lines)


def refuse_unfit(info):
    """AMX is where the peer is fastest; without it the comparison would flatter."""
    flags = set()
    if os.path.exists("/proc/cpuinfo"):
        for line in open("/proc/cpuinfo", encoding="ascii", errors="replace"):
            if line.startswith("flags"):
                flags.update(line.split(":", 1)[1].split())
                break
    if "amx_int8" not in flags:
        return "this CPU has no AMX"
    if "AMX_INT8 = 1" not in info:
        raise SystemExit("This CPU has AMX and this llama.cpp was built without it. Build it from source with clang: "
                         "CC=clang CXX=clang++ pip install --no-binary llama-cpp-python llama-cpp-python")
    return "AMX on both sides"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire")
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=whole_numbers, default=[512, 2048], help="lengths, or none")
    parser.add_argument("--depth", type=whole_numbers, default=[0, 256, 1024], help="of one decoding stream, or none")
    parser.add_argument("--parallel", type=whole_numbers, default=[4, 16], help="decoding streams, or none")
    parser.add_argument("--parallel-depth", type=int, default=256)
    parser.add_argument("--shared-prefix", type=int, default=1000, help="common new tokens; 0 = do not measure")
    parser.add_argument("--shared-requests", type=int, default=4)
    parser.add_argument("--peer-kv", choices=["split", "unified"], default="split",
                        help="llama.cpp's KV buffer: one for each sequence, or one that all share (its server's default)")
    parser.add_argument("--isa", help="a lower instruction set for Quire (QUIRE_CPU_ISA)")
    parser.add_argument("--results", type=pathlib.Path, help="JSON file of all rounds, read and written")
    options = parser.parse_args()
    info = peer_module.system_info()
    header = (f"llama.cpp: llama-cpp-python {llama_cpp.__version__}, {info}; {refuse_unfit(info)}. Quire: "
              f"{options.isa or 'the best instruction set it finds'}. KV of the peer {options.peer_kv}. "
              f"{options.threads} threads, "
              f"medians of interleaved rounds, {platform.processor() or platform.machine()}.")
    print(header, file=sys.stderr)
    results = {}
    if options.results and options.results.exists():
        results = json.loads(options.results.read_text())

    def save():
        if options.results:
            options.results.write_text(json.dumps(results))

    streams = max(options.parallel + [options.shared_requests])
    longest = 256 + max([max(options.depth + [0]) + STEPS, *options.prefill, options.parallel_depth + STEPS,
                         options.shared_prefix + 64])
    room = 256 + max([longest, max(options.parallel + [0]) * (options.parallel_depth + STEPS),
                      options.shared_requests * (options.shared_prefix + 64)])
    cells = streams * longest if options.peer_kv == "split" else room
    for model in options.models:
        peer = peer_module.Peer(model, options.threads, cells, streams, options.peer_kv == "unified")
        peer.prefill(64)  # warm-up
        measure(options, model, peer, results.setdefault(pathlib.Path(model).stem, {}), save)
        peer.close()
    print(table(results, header))


if __name__ == "__main__":
    main()
