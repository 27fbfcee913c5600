# SPDX-License-Identifier: GPL-2.0
"""Transfer bytes between a disk and a BAR by O_DIRECT, without a copy in host memory.

usage: direct_io.py to-bar|to-disk BAR DISK SEED

to-bar writes the pattern of SEED to the disk from host memory and reads it into the BAR;
to-disk writes it to the BAR by the CPU and from there to the disk. Offsets in the output are those in
the BAR and on the disk.
"""

import fcntl
import mmap
import os
import struct
import sys

LENGTH = 1 << 20
# On the disk.
AT = 3 << 20
IOC_RANGE = 0xC020BB01


def pattern(seed):
    """As scripts/checks/check-bar-file makes it."""
    mask = (1 << 64) - 1
    out = bytearray()
    while len(out) < LENGTH:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out += (z ^ (z >> 31)).to_bytes(8, "little")
    return bytes(out)


def say(word, offset, seed):
    print("%s offset=%d length=%d seed=%d guard=0" % (word, offset, LENGTH, seed))


class Bar:
    """A mapping of a BAR."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR)
        self.memory = mmap.mmap(self.fd, LENGTH, mmap.MAP_SHARED)

    def offset(self):
        """Its place in the BAR."""
        with open("/proc/self/maps", encoding="ascii") as maps:
            line = next(l for l in maps if "[io_peer_mem]" in l or "/io_peer_mem/" in l)
        addr = int(line.split("-")[0], 16)
        arg = bytearray(struct.pack("4Q", addr, 0, 0, 0))
        fcntl.ioctl(self.fd, IOC_RANGE, arg)
        return struct.unpack("4Q", arg)[1]


def main():
    what, path, disk, seed = sys.argv[1:]
    seed = int(seed)
    data = pattern(seed)
    bar = Bar(path)
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    if what == "to-bar":
        host = mmap.mmap(-1, LENGTH)
        host[:] = data
        assert os.pwritev(fd, [host], AT) == LENGTH
        assert os.preadv(fd, [bar.memory], AT) == LENGTH
        assert bar.memory[:] == data
        say("to-bar", bar.offset(), seed)
    elif what == "to-disk":
        bar.memory[:] = data
        assert os.pwritev(fd, [bar.memory], AT) == LENGTH
        say("to-disk", AT, seed)
    else:
        sys.exit(__doc__)


main()
