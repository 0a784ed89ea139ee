#!/usr/bin/env python3
"""Load and free memory of every node, once a second: load.py [HOST [PORT [COUNT]]]

docs/text-protocol.md tells what is said.
"""
import socket
import sys
import time

host, port, count = (sys.argv[1:] + ["localhost", "2709", "0"][len(sys.argv) - 1 :])[:3]
connection = socket.create_connection((host, int(port))).makefile("rw", newline="\n")


def ask(command):
    """The lines up to the blank one."""
    connection.write(command)
    connection.flush()
    return list(iter(lambda: connection.readline().rstrip("\n"), ""))


# '#' names the items; the sum of their bits is the mask.
bits = {name: int(bit, 16) for bit, name, *_ in map(str.split, ask("#"))}
mask = f"{bits['load1m'] + bits['memfree']:x}\n"

done = 0
while done != int(count) or int(count) == 0:
    if done:
        time.sleep(1)
    for line in ask(mask + "S"):
        print(line, flush=True)
    done += 1
