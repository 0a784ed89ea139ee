"""Mounts a FUSE file system at a folder that answers everything but what its sizes are, and then runs a program.

    hung_mount.py FOLDER PROGRAM [WORD...]

The kernel lets no thread go that waits for such an answer. When this script ends, the file system does, too.
"""

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading

LOOKUP, GETATTR, STATFS, INIT = 1, 3, 17, 26
FORGETS = (2, 36, 42)
HEADER = struct.Struct("<IIQQIIII")


def reply(device, unique, data=b"", error=0):
    try:
        os.write(device, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
    except OSError:
        pass


def serve(device):
    # struct fuse_attr: inode, size, blocks, three times, their nanoseconds, mode, links, user, group, device, block size, flags.
    root = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError as problem:
            if problem.errno == errno.ENODEV:
                return
            continue
        _, what, unique, *_ = HEADER.unpack_from(request)
        if what == INIT:
            reply(device, unique, struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 16, 16, 131072, 1, 0, 0, 0) + bytes(28))
        elif what == GETATTR:
            reply(device, unique, struct.pack("<QII", 0, 0, 0) + root)
        elif what == STATFS or what in FORGETS:
            pass
        else:
            reply(device, unique, error=errno.ENOENT if what == LOOKUP else errno.ENOSYS)


def main():
    folder, words = sys.argv[1], sys.argv[2:]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"hung", folder.encode(), b"fuse.hung", 0, options.encode()) != 0:
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    threading.Thread(target=serve, args=(device,), daemon=True).start()
    # The kernel ends a process's threads that wait for a file system only when that answers: this script's end is that answer.
    sys.exit(subprocess.run(words).returncode)


main()
