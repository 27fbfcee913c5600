# SPDX-License-Identifier: GPL-2.0
"""Transfer bytes by O_DIRECT between a file and mapped memory, and print the results.

usage: storage_io.py FILE MEMORY [map=KIND] [size=N] [at=N] [length=N] [offset=N] [do=WORD]

MEMORY is a file that is mapped (a BAR, p2pmem/allocate, resource2), or "host" for anonymous memory.
KIND is shared (the default), private or readonly. The mapping has "size" bytes (1 MiB), and nothing
is mapped behind it. The transfers are between offset "at" of the mapping and "offset" of the file,
"length" bytes (64 KiB). WORD:

both      the default: random bytes to the file and back, each with a line "write" or "read", and
          the number of bytes or the name of the errno; "same True" if the bytes are the same
write, read    one transfer
forever   both, again and again, until one fails or is short; the CPU does not access the memory.
          Prints "running" after the first round
vmsplice  the memory into a pipe

If the mapping or the open fails, the only line is "map" or "open" and the name of the errno.
"""

import ctypes
import errno
import os
import sys

PROT_NONE, PROT_READ, PROT_WRITE = 0, 1, 2
MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS = 1, 2, 0x10, 0x20
FAILED = ctypes.c_void_p(-1).value

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
for call in (libc.pread, libc.pwrite):
    call.restype = ctypes.c_ssize_t
    call.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
libc.vmsplice.restype = ctypes.c_ssize_t


class Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def say(what, result):
    """Prints a result; a negative one is that of errno."""
    print(what, result if result >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
    return result


def map_memory(path, kind, size):
    """Returns an address, or None after a line with the errno."""
    prot = PROT_READ if kind == "readonly" else PROT_READ | PROT_WRITE
    flags = MAP_PRIVATE if kind == "private" else MAP_SHARED
    fd = -1
    if path == "host":
        flags |= MAP_ANONYMOUS
    else:
        fd = os.open(path, os.O_RDWR)
    space = libc.mmap(None, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    address = libc.mmap(space, size, prot, flags | MAP_FIXED, fd, 0)
    if address == FAILED:
        say("map", -1)
        return None
    return address


def forever(write, read, length):
    """Writes and reads until one of both is not of the whole length."""
    rounds = 0
    while True:
        for what, transfer in (("write", write), ("read", read)):
            result = transfer()
            if result != length:
                say(what, result)
                return
        rounds += 1
        if rounds == 1:
            print("running", flush=True)


def both(write, read, address, length, filled):
    """Writes and reads once; filled: the CPU can access all of the memory."""
    words = os.urandom(length)
    if filled:
        ctypes.memmove(address, words, length)
    done = say("write", write())
    if filled:
        ctypes.memset(address, 0, length)
    done += say("read", read())
    if filled and done == 2 * length:
        print("same", ctypes.string_at(address, length) == words)


def main():
    path, memory = sys.argv[1:3]
    options = {"size": 1 << 20, "at": 0, "length": 1 << 16, "offset": 0, "map": "shared", "do": "both"}
    for word in sys.argv[3:]:
        name, value = word.split("=")
        options[name] = int(value) if value.isdigit() else value
    length, offset, kind = options["length"], options["offset"], options["map"]
    start = map_memory(memory, kind, options["size"])
    if start is None:
        return
    address = start + options["at"]
    try:
        fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    except OSError as e:
        print("open", errno.errorcode[e.errno])
        return

    def write():
        return libc.pwrite(fd, address, length, offset)

    def read():
        return libc.pread(fd, address, length, offset)

    if options["do"] == "both":
        filled = kind != "readonly" and options["at"] + length <= options["size"]
        both(write, read, address, length, filled)
    elif options["do"] == "write":
        say("write", write())
    elif options["do"] == "read":
        say("read", read())
    elif options["do"] == "forever":
        forever(write, read, length)
    elif options["do"] == "vmsplice":
        vector = Vector(address, length)
        say("vmsplice", libc.vmsplice(os.pipe()[1], ctypes.byref(vector), ctypes.c_ulong(1), 0))
    else:
        sys.exit(__doc__)


main()
