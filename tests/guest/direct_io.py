# SPDX-License-Identifier: GPL-2.0
"""Transfer bytes between a disk and a BAR by O_DIRECT, without a copy in host memory.

usage: direct_io.py to-bar|to-disk|linear BAR DISK SEED

to-bar writes the pattern of SEED to the disk from host memory and reads it into the BAR;
to-disk writes it to the BAR by the CPU and from there to the disk; linear reads through a
device-mapper target on the disk, and prints the error. Offsets in the output are those in the
BAR and on the disk.
"""

import errno
import fcntl
import mmap
import os
import struct
import sys

LENGTH = 1 << 20
# On the disk.
AT = 3 << 20
IOC_RANGE = 0xC020BB01
DM_DEV_CREATE, DM_DEV_REMOVE, DM_DEV_SUSPEND, DM_TABLE_LOAD = 3, 4, 6, 9


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


def dm(control, command, target=b""):
    """An ioctl of the device mapper, for the device "peer". Returns its minor."""
    arg = bytearray(struct.pack("3I2I I i 3I Q 128s 129s 7s", 4, 0, 0, 312 + len(target), 312,
                                1 if target else 0, 0, 0, 0, 0, 0, b"peer", b"", b""))
    arg += target
    fcntl.ioctl(control, 0xC138FD00 | command, arg)
    dev = struct.unpack_from("Q", arg, 40)[0]
    return dev & 0xFF


def linear(bar, path):
    """Reads through a linear target, and prints the error."""
    rdev = os.stat(path).st_rdev
    params = b"%d:%d 0\0" % (os.major(rdev), os.minor(rdev))
    params += bytes(-len(params) % 8)
    target = struct.pack("2Q i I 16s", 0, 32 << 11, 0, 0, b"linear") + params
    with open("/dev/mapper/control", "rb") as control:
        minor = dm(control, DM_DEV_CREATE)
        try:
            dm(control, DM_TABLE_LOAD, target)
            dm(control, DM_DEV_SUSPEND)
            fd = os.open("/dev/dm-%d" % minor, os.O_RDWR | os.O_DIRECT)
            for name, transfer in (("read", os.preadv), ("write", os.pwritev)):
                try:
                    print(name, transfer(fd, [bar.memory], AT))
                except OSError as e:
                    print(name, errno.errorcode[e.errno])
            # Of host memory.
            print("host", os.preadv(fd, [mmap.mmap(-1, LENGTH)], AT) == LENGTH)
            os.close(fd)
        finally:
            dm(control, DM_DEV_REMOVE)


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
    elif what == "linear":
        linear(bar, disk)
    else:
        sys.exit(__doc__)


main()
