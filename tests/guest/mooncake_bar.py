#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""mooncake_bar.py serve|transfer HOST DEVICE BAR [SEGMENT ADDRESS]: Mooncake's transfer engine with
memory in a BAR. The engine registers the mapped BAR by address. "serve" prints the segment and the
address of the BAR, and ends at the end of the input. "transfer" writes LENGTH bytes into the BAR of
the segment, reads other bytes from there, and prints what the BARs must have then, in the words
of host_has (tests/guest/lib.sh)."""

import ctypes
import mmap
import os
import sys

from mooncake.engine import TransferEngine

MASK = (1 << 64) - 1
LENGTH = 1 << 20
MAPPED = 4 << 20
# Inside of pages. The bytes around stay 0.
FROM, TO, BACK = 4096 + 320, 8192 + 77, (2 << 20) + 5
GUARD = 64


def pattern(seed, length):
    """Returns the bytes of samples/verbs/pattern.h."""
    out = bytearray()
    while len(out) < length:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return bytes(out[:length])


def main():
    role, host, device, path = sys.argv[1:5]
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    bar = mmap.mmap(fd, MAPPED)
    anchor = ctypes.c_char.from_buffer(bar)
    address = ctypes.addressof(anchor)
    engine = TransferEngine()
    if engine.initialize(host, "P2PHANDSHAKE", "rdma", device) != 0:
        sys.exit("the engine does not start")
    if engine.register_memory(address, MAPPED) != 0:
        sys.exit("the engine cannot register the BAR")
    if role == "serve":
        bar[BACK:BACK + LENGTH] = pattern(102, LENGTH)
        print(f"segment {host}:{engine.get_rpc_port()} {address}", flush=True)
        sys.stdin.read()
    else:
        segment, peer = sys.argv[5], int(sys.argv[6])
        bar[FROM:FROM + LENGTH] = pattern(101, LENGTH)
        if engine.transfer_sync_write(segment, address + FROM, peer + TO, LENGTH) != 0:
            sys.exit("the write fails")
        if engine.transfer_sync_read(segment, address + BACK, peer + BACK, LENGTH) != 0:
            sys.exit("the read fails")
        if bar[BACK:BACK + LENGTH] != pattern(102, LENGTH):
            sys.exit("the read gave other bytes")
        print(f"wrote offset={TO} length={LENGTH} seed=101 guard={GUARD}")
        print(f"read offset={BACK} length={LENGTH} seed=102 guard={GUARD}", flush=True)
    if engine.unregister_memory(address) != 0:
        sys.exit("the engine cannot unregister the BAR")
    # Threads of the engine may still run: an orderly exit of Python is not a subject of the test.
    os._exit(0)


main()
