#!/usr/bin/env python3
"""One process of a small parallel program, as MPI starts them: it fetches its input from the first one, unpacks it, waits
at a barrier until all are there, exchanges messages with its neighbours, and ends.

    rank.py RANK RANKS          the others are at 10.88.0.1 and up
"""

import mmap
import socket
import sys
import threading
import time

INPUT = 24 << 20
ROUNDS = 400
MESSAGE = bytes(32 << 10)
ADDRESS = "10.88.0.%d"


def listen(rank, port):
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind((ADDRESS % rank, port))
    door.listen(16)
    return door


def connect(rank, port):
    while True:
        try:
            return socket.create_connection((ADDRESS % rank, port))
        except OSError:
            time.sleep(0.05)


def serve(ranks):
    """The first rank hands out the input, and opens the barrier when the last one has come."""
    inputs, barrier = listen(1, 9000), listen(1, 9001)

    def hand_out():
        for _ in range(ranks):
            other, _ = inputs.accept()
            threading.Thread(target=lambda other=other: (other.sendall(bytes(INPUT)), other.close())).start()

    def gather():
        others = [barrier.accept()[0] for _ in range(ranks)]
        for other in others:
            other.sendall(b"!")

    threading.Thread(target=hand_out).start()
    threading.Thread(target=gather).start()


def receive(source, length):
    while length:
        piece = source.recv(min(length, 1 << 16))
        if not piece:
            raise SystemExit("a neighbour has gone")
        length -= len(piece)


def unpack(seconds):
    """Fresh memory, page by page: work for the kernel."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with mmap.mmap(-1, 4 << 20) as memory:
            for page in range(0, len(memory), mmap.PAGESIZE):
                memory[page] = 1


def exchange(rank, ranks, door):
    right = connect(rank % ranks + 1, 9100)
    left, _ = door.accept()
    for _ in range(ROUNDS):
        right.sendall(MESSAGE)
        receive(left, len(MESSAGE))
        time.sleep(0.005)


def main():
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    door = listen(rank, 9100)
    if rank == 1:
        serve(ranks)
    receive(connect(1, 9000), INPUT)
    unpack(1.0)
    barrier = connect(1, 9001)
    receive(barrier, 1)
    exchange(rank, ranks, door)


main()
