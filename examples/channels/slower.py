#!/usr/bin/env python3
"""Adaptive granularity: a channel that gathers 100 times a second while something happens, and once a second else, and what a job on
the same machine loses with and without that.

    slower.py [KHZ [SECONDS]]       KHZ: the address of a page [http://127.0.0.1:7070]

The job is a process on each CPU. It does nothing but read the clock, and adds up the gaps: times in which something else had the CPU,
be it khz, the kernel, or a neighbour of a virtual machine. So compare the lines, and take more seconds on a noisy machine.
CPU time of gathering is what the nodes say of themselves. The khz has to be on this machine; so the reader takes something of the job, too:
its own CPU time is shown. In real use it is elsewhere.
"""

import gc
import multiprocessing
import os
import sys
import threading
import time

from khz_rows import Publisher, rows, sum_of_nodes

SERIES = ["kernel.*", "load.*", "mem.free"]
RATE = "100Hz"
# While the condition does not hold, the node gathers this many times more slowly.
SLOWER = 100
# The condition: a number that the job publishes. It could as well be one of the kernel.
CONDITION = '{"job.slower.busy"} > 0'
GATHERING = "khz.gather.cpu"
# Reading the clock takes a tenth of a microsecond: what takes longer than this was something else.
GAP_NS = 10_000


def lost(cpu, seconds, out):
    """The share of the time that this CPU was not ours."""
    os.sched_setaffinity(0, {cpu})
    gc.disable()
    clock = time.perf_counter_ns
    begun = last = clock()
    end, gaps = begun + int(seconds * 1e9), 0
    while last < end:
        now = clock()
        if now - last > GAP_NS:
            gaps += now - last
        last = now
    out.put(gaps / (last - begun))


def job(seconds):
    """What the job loses, per mille: the mean over all CPUs."""
    out = multiprocessing.SimpleQueue()
    cpus = sorted(os.sched_getaffinity(0))
    workers = [multiprocessing.Process(target=lost, args=(cpu, seconds, out)) for cpu in cpus]
    for worker in workers:
        worker.start()
    shares = [out.get() for _ in workers]
    for worker in workers:
        worker.join()
    return 1000 * sum(shares) / len(shares)


class Follower(threading.Thread):
    """Reads a stream and counts its rows, until somebody ends it."""

    def __init__(self, khz, terms):
        super().__init__(daemon=True)
        self.terms, self.khz = terms, khz
        self.count, self.first, self.over = 0, threading.Event(), False

    def run(self):
        for _ in rows(self.khz, match=SERIES, rate=RATE, exact=1, **self.terms):
            self.count += 1
            self.first.set()
            if self.over:
                return

    def begun(self):
        self.start()
        if not self.first.wait(10):
            raise SystemExit(f"{self.khz}: no row came within 10 s")
        return self


class Busy(threading.Thread):
    """Says twenty times a second whether something happens, as a job would."""

    def __init__(self):
        super().__init__(daemon=True)
        self.value, self.publisher = 0, Publisher()

    def run(self):
        while True:
            self.publisher.publish(f"slower.busy={self.value} help=1 while something happens")
            time.sleep(0.05)


def measured(khz, seconds, name, follower):
    count = follower.count if follower else 0
    gathering, begun, reading = sum_of_nodes(khz, GATHERING), time.monotonic(), time.process_time()
    loss = job(seconds)
    took, reading = time.monotonic() - begun, time.process_time() - reading
    gathering = sum_of_nodes(khz, GATHERING) - gathering
    often = ((follower.count if follower else 0) - count) / took
    shares = "".join(f"{100 * seconds / took:10.2f} %" for seconds in (gathering, reading))
    print(f"{name:<38}{often:8.1f}{shares}{loss:12.1f}", flush=True)


def main():
    words = sys.argv[1:]
    khz = words[0] if words else "http://127.0.0.1:7070"
    seconds = float(words[1]) if len(words) > 1 else 10.0
    busy = Busy()
    busy.start()
    print(f"{'':<38}{'rows/s':>8}{'gathering':>12}{'reader':>12}{'job loses ‰':>12}")

    measured(khz, seconds, "nobody reads", None)
    adaptive = Follower(khz, {"when": CONDITION, "slower": SLOWER}).begun()
    time.sleep(2)  # The first rows may be at the full rate.
    measured(khz, seconds, f"{RATE}, slower={SLOWER}, nothing happens", adaptive)
    busy.value = 1
    time.sleep(2)  # A slow node sees it at its next row, up to a second later.
    measured(khz, seconds, f"{RATE}, slower={SLOWER}, something happens", adaptive)
    busy.value = 0
    time.sleep(2)
    adaptive.over = True

    # Last: a node keeps the pace of a lane for a while after its reader has gone.
    measured(khz, seconds, f"always {RATE}", Follower(khz, {}).begun())


main()
