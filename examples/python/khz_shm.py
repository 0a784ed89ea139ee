#!/usr/bin/env python3
"""A node's latest numbers out of shared memory (docs/shm.md), with nothing but mmap and struct.

    import khz_shm
    node = khz_shm.Snapshot("/dev/shm/khz/node1/snapshot")
    free = node.find("mem.free")
    print(node.read(free).value)

    khz_shm.py FILE NAME...         prints them once
"""
import mmap
import struct
import sys
import time
from decimal import Decimal
from typing import NamedTuple, Union

WORDS, GROUPS, SLOTS, NAMES, SIZE = 4096, 8192, 12288, 4206592, 20983808
SLOTS_MAX, NAMES_MAX, GROUPS_MAX = 262144, 16 << 20, 64
PRESENT, SIGNED, FLOAT = 0, 65, 66


class Value(NamedTuple):
    value: Union[Decimal, float, None]  # exact, or a float where it was derived; None: there is none
    state: int  # 0 present, 65 present and signed, 66 present and a float, 1-127 else absent, 128-255 failed
    boot_ns: int  # when it was gathered: CLOCK_BOOTTIME of the node
    real_ns: int  # the same since 1970


class Snapshot:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        if len(self.memory) != SIZE or self.memory[:5] != b"khzM\x01":
            raise ValueError(f"{path} is not a snapshot of version 1")
        # A word is read in one go: a view of 64-bit numbers does that, slices of bytes might not.
        self.words = memoryview(self.memory).cast("Q")

    def _word(self, at):
        return self.words[at // 8]

    def ended(self):
        """True when the agent has ended; a new one makes a new file."""
        return self._word(WORDS + 16) != 0

    def names(self):
        """What the slots are called, in order: (name, unit)."""
        slots = min(self._word(WORDS), SLOTS_MAX)
        end = NAMES + min(self._word(WORDS + 8), NAMES_MAX)
        found, at = [], NAMES
        while len(found) < slots and at + 8 <= end:
            length, _group, _kind, _places, unit, name = struct.unpack_from("<HBBBBH", self.memory, at)
            if length < 8 + unit + name or at + length > end:
                break
            text = self.memory[at + 8 : at + 8 + unit + name]
            found.append((text[unit:].decode(), text[:unit].decode()))
            at += length
        return found

    def find(self, name):
        """The slot of this name; KeyError: there is none. To be looked up once."""
        for slot, (known, _unit) in enumerate(self.names()):
            if known == name:
                return slot
        raise KeyError(name)

    def read(self, slot):
        """The latest value of a slot."""
        if not 0 <= slot < min(self._word(WORDS), SLOTS_MAX):
            raise IndexError(f"there is no slot {slot}")
        at = SLOTS + 16 * slot
        group = self._word(at + 8) >> 8 & 255
        if group >= GROUPS_MAX:
            raise IndexError(f"slot {slot} is of no group")
        sequence = GROUPS + 64 * group
        give_up = None
        while True:
            before = self._word(sequence)
            number, meta = self._word(at), self._word(at + 8)
            boot, offset = self._word(sequence + 8), self._word(sequence + 16)
            if before % 2 == 0 and self._word(sequence) == before:
                break
            give_up = give_up or time.monotonic() + 1
            if time.monotonic() > give_up:
                raise OSError("no whole row: the writer has died within one (open the file again), or never pauses")
        state, places = meta & 255, meta >> 16 & 255
        if offset >= 1 << 63:
            offset -= 1 << 64
        if state == SIGNED and number >= 1 << 63:
            number -= 1 << 64
        value = None
        if state in (PRESENT, SIGNED):
            value = Decimal(number).scaleb(-places)
        elif state == FLOAT:
            (value,) = struct.unpack("<d", number.to_bytes(8, "little"))
        return Value(value, state, boot, boot + offset)


def main(words):
    if len(words) < 2:
        print("usage: khz_shm.py FILE NAME...", file=sys.stderr)
        return 2
    try:
        node = Snapshot(words[0])
    except (OSError, ValueError) as error:
        print(f"khz_shm.py: {error}", file=sys.stderr)
        return 1
    status = 0
    for name in words[1:]:
        try:
            value = node.read(node.find(name)).value
        except KeyError:
            value = None
        print(name, "unknown" if value is None else value)
        status = 3 if value is None else status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
