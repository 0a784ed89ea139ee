#!/usr/bin/env python3
"""A program with a barrier after each step that publishes when its processes arrive there, and a reader that shows live who is late
and how far computation and communication overlap.

    barrier.py run [RANKS [SECONDS]]        the program, on a machine with a khz or an agent [4 ranks, 60 s]
    barrier.py watch [KHZ [SECONDS]]        the reader, anywhere [http://127.0.0.1:7070, until Ctrl-C]

In each step a rank computes, sends a message to its right neighbour, gets one from its left, and waits for all. Even ranks communicate
while they compute, odd ones afterwards. The last rank has twice the work of the others; after half of the time the first one has.
The computation is real. The network is made up: a message goes out in pieces with a pause after each.
"""

import hashlib
import multiprocessing
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from khz_rows import Publisher, rows

# CPU time of a step's computation.
WORK = 0.015
PIECES, PIECE, PAUSE = 8, bytes(4096), 0.001
# Rows for the reader: several in each step.
RATE = "100Hz"
# What a node computes for the reader: which part of the time of communication was computed in.
OVERLAP = 'rate({"job.barrier.overlapped"}[1s]) / rate({"job.barrier.communicated"}[1s])'


def compute(seconds):
    """Takes this much CPU time; returns when it began and ended."""
    began, until, block = time.time(), time.thread_time() + seconds, bytes(1 << 16)
    while time.thread_time() < until:
        hashlib.sha256(block).digest()  # without the interpreter's lock: the other thread goes on
    return began, time.time()


def communicate(right, left):
    """A message to the right, one from the left; returns when it began and ended."""
    began = time.time()
    for _ in range(PIECES):
        right.sendall(PIECE)
        time.sleep(PAUSE)
    missing = PIECES * len(PIECE)
    while missing:
        piece = left.recv(missing)
        if not piece:
            raise SystemExit("a neighbour has gone")
        missing -= len(piece)
    return began, time.time()


def work(rank, ranks, seconds, right, left, barrier):
    publisher, helper = Publisher(), ThreadPoolExecutor(1)
    began, step = time.time(), 0
    spent = {"computed": 0.0, "communicated": 0.0, "overlapped": 0.0}
    over = began + seconds
    while True:
        is_late_half = time.time() > (began + over) / 2
        slow = rank == (0 if is_late_half else ranks - 1)
        if rank % 2 == 0:
            message = helper.submit(communicate, right, left)
            computed = compute(WORK * (1 + slow))
            communicated = message.result()
        else:
            computed = compute(WORK * (1 + slow))
            communicated = communicate(right, left)
        arrived = time.time()
        step += 1
        spent["computed"] += computed[1] - computed[0]
        spent["communicated"] += communicated[1] - communicated[0]
        spent["overlapped"] += max(0, min(computed[1], communicated[1]) - max(computed[0], communicated[0]))
        # All of a step in one datagram: a row has all of it, or nothing. The time is that of the arrival.
        publisher.publish(
            f"barrier.step[rank={rank}]={step} kind=counter time={arrived:.6f} help=The barrier at which a rank has arrived",
            f"barrier.arrived[rank={rank}]={arrived:.6f} unit=seconds time={arrived:.6f} help=When, in seconds since 1970",
            *(
                f"barrier.{what}[rank={rank}]={seconds:.6f} kind=counter unit=seconds time={arrived:.6f}"
                for what, seconds in spent.items()
            ),
        )
        try:
            barrier.wait(timeout=10)
        except threading.BrokenBarrierError:
            return  # Somebody's time is over.
        if time.time() > over:
            barrier.abort()


def run(ranks, seconds):
    barrier = multiprocessing.Barrier(ranks)
    cables = [socket.socketpair() for _ in range(ranks)]  # from each rank to its right neighbour
    workers = [
        multiprocessing.Process(
            target=work, args=(rank, ranks, seconds, cables[rank][0], cables[rank - 1][1], barrier)
        )
        for rank in range(ranks)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a rank has failed")


class Late:
    """What the rows of one interval say of who is late."""

    def __init__(self):
        self.known = {}  # rank: (step, when it arrived there)
        self.whole = 0  # the newest step at which the rows showed all ranks
        self.next_interval()

    def next_interval(self):
        self.begin = self.whole
        self.seen, self.last, self.behind, self.awaited = 0, {}, 0.0, {}

    def step(self):
        return max((step for step, _ in self.known.values()), default=0)

    def take(self, row):
        for name, value in row.values.items():
            if name.startswith("job.barrier.step["):
                rank = name[name.index("=") + 1 : -1]
                arrived = row.values.get(f"job.barrier.arrived[rank={rank}]")
                if arrived is not None:
                    self.known[rank] = int(value), arrived
        if not self.known:
            return
        step = self.step()
        missing = [rank for rank, (at, _) in self.known.items() if at < step]
        for rank in missing:
            self.awaited[rank] = self.awaited.get(rank, 0) + 1
        if not missing and step != self.whole:
            # What came before the first row is not counted, and neither are the steps of a program that ran before.
            self.begin = step - 1 if self.whole == 0 or step < self.whole else self.begin
            self.whole, self.seen = step, self.seen + 1
            times = {rank: arrived for rank, (_, arrived) in self.known.items()}
            last = max(times, key=times.get)
            self.last[last] = self.last.get(last, 0) + 1
            self.behind += times[last] - min(times.values())

    def line(self):
        if not self.seen:
            return "no step of which a row shows all arrivals"
        steps = self.whole - self.begin
        last = max(self.last, key=self.last.get)
        behind = 1000 * self.behind / self.seen
        awaited = max(self.awaited, key=self.awaited.get) if self.awaited else None
        text = f"{steps} steps, {steps - self.seen} not seen whole; last: rank {last} in {self.last[last]}"
        text += f"; the last comes {behind:.1f} ms after the first"
        return text + (f"; most awaited: rank {awaited}" if awaited else "")


def follow_overlap(khz, overlap):
    for row in rows(khz, expr=OVERLAP, rate="10Hz", every="1s"):
        for name, value in row.values.items():
            overlap[name[name.index("=") + 1 : -1]] = value


def watch(khz, seconds):
    overlap, late = {}, Late()
    threading.Thread(target=follow_overlap, args=(khz, overlap), daemon=True).start()
    begun = shown = None
    for row in rows(khz, match=["job.barrier.step", "job.barrier.arrived"], rate=RATE, exact=1):
        late.take(row)
        if not late.known:
            continue
        if begun is None:
            begun = shown = time.monotonic()
        now = time.monotonic()
        if now - shown < 1:
            continue
        shares = " ".join(f"{rank}: {100 * share:.0f} %" for rank, share in sorted(overlap.items()))
        print(f"{time.strftime('%H:%M:%S')}  {late.line()}; overlap {shares or 'not known yet'}", flush=True)
        shown = now
        late.next_interval()
        if seconds is not None and now - begun > seconds:
            return


def main():
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        run(int(words[1]) if len(words) > 1 else 4, float(words[2]) if len(words) > 2 else 60.0)
    elif words[:1] == ["watch"]:
        url = words[1] if len(words) > 1 else "http://127.0.0.1:7070"
        watch(url, float(words[2]) if len(words) > 2 else None)
    else:
        raise SystemExit(__doc__)


main()
