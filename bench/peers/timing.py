"""Timing shared by the peers: threads, samples, and answers as JSON lines.

A peer script calls prepare() before it imports numpy or torch, and then main()
with its rows. Alone it prints every row; with --serve it answers requests from
standard input, so that a driver can alternate it with what it is compared to:

    {"name": "gemm/nn-256x784x512/torch", "seconds": 0.2}

gives one line

    {"name": ..., "threads": 1, "seconds": {"median": ..., "min": ...},
     "cpu_seconds": {"median": ..., "min": ...}, "samples": 57, "note": ""}
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time


def prepare(description, more=None):
    """Parse the command line and fix the threads. Call before importing numpy or torch.
    more(parser) adds options of the script's own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="time spent on each row")
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--serve", action="store_true", help="answer requests from standard input")
    parser.add_argument("--data", default="data/mnist", help="folder of the MNIST IDX files")
    if more:
        more(parser)
    args = parser.parse_args()
    # The libraries read these when they load. torch's GEMM ignores
    # set_num_threads, and an actively waiting OpenMP makes small steps many
    # times slower on a shared machine.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    os.environ["OMP_WAIT_POLICY"] = "passive"
    # A pinned core type can halve OpenBLAS.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    return args


def measure(run, seconds, least=5):
    """Time run() over and over for about `seconds`, at least `least` times."""
    run()
    wall, cpu = [], []
    end = time.perf_counter() + seconds
    while len(wall) < least or time.perf_counter() < end:
        c, w = time.process_time(), time.perf_counter()
        run()
        wall.append(time.perf_counter() - w)
        cpu.append(time.process_time() - c)
    return wall, cpu


# Rows that take seconds.
LONG = ("train/", "craft/", "routing/", "accounting/opacus-fine", "accounting/opacus-calibration")


def answer(name, row, seconds, threads):
    run, note = row
    if name.startswith(LONG):  # no warm-up, one sample
        c, w = time.process_time(), time.perf_counter()
        run()
        wall, cpu = [time.perf_counter() - w], [time.process_time() - c]
    else:
        wall, cpu = measure(run, seconds)
    return {
        "name": name,
        "threads": threads,
        "seconds": {"median": statistics.median(wall), "min": min(wall)},
        "cpu_seconds": {"median": statistics.median(cpu), "min": min(cpu)},
        "samples": len(wall),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "note": note,
    }


def main(args, versions, rows):
    """Print `versions` and then answers. rows maps a name to a function that
    makes (run, note): what a row needs is built when it is first asked for."""

    def say(line):
        print(json.dumps(line), flush=True)

    say({"versions": versions, "rows": sorted(rows), "threads": args.threads})
    built = {}

    def one(name, seconds):
        try:
            if name not in built:
                built[name] = rows[name]()
            return answer(name, built[name], seconds, args.threads)
        except Exception as err:  # the row is missing, not the table
            return {"name": name, "threads": args.threads, "error": f"{type(err).__name__}: {err}"}

    if not args.serve:
        for name in sorted(rows):
            if args.rows in name:
                say(one(name, args.seconds))
        return
    for line in sys.stdin:
        ask = json.loads(line)
        say(one(ask["name"], ask.get("seconds", args.seconds)))
