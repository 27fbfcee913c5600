# SPDX-License-Identifier: GPL-2.0
"""Transfer bytes by O_DIRECT between a file and mapped memory, and print the results.

usage: storage_io.py FILE MEMORY [map=KIND] [do=WORD]

MEMORY is a file that is mapped (a BAR, p2pmem/allocate, resource2), or "host" for anonymous memory.
KIND is shared (the default), private or readonly. The mapping has 1 MiB, and nothing is mapped
behind it. The transfers are of 64 KiB at the begin of both. WORD:

both      the default: random bytes to the file and back, each with a line "write" or "read", and
          the number of bytes or the name of the errno; "same True" if the bytes are the same
write, read    one transfer
forever   both, again and again, until one fails or is short; the CPU does not access the memory.
          Prints "running" after the first round

If the mapping or the open fails, the only line is "map" or "open" and the name of the errno.
"""

from calls import *

MAP_FIXED = 0x10
KINDS = {'shared': (MAP_SHARED, RW), 'private': (MAP_PRIVATE, RW), 'readonly': (MAP_SHARED, PROT_READ)}
SIZE = 1 << 20
LENGTH = 1 << 16


def say(what, result):
    """Prints a result; a negative one is that of errno."""
    print(what, result if result >= 0 else errorcode[ctypes.get_errno()], flush=True)
    return result


def map_memory(path, kind):
    flags, prot = KINDS[kind]
    fd = -1 if path == 'host' else os.open(path, os.O_RDWR)
    space = mapped(-1, 2 * SIZE, 0, MAP_PRIVATE | MAP_ANONYMOUS)
    at = LIBC.mmap(space, SIZE, prot, flags | MAP_FIXED | (MAP_ANONYMOUS if fd < 0 else 0), fd, 0)
    if at != space:
        say('map', -1)
        sys.exit()
    return at


def both(transfers, at, filled):
    """Writes and reads once; filled: the CPU can access all of the memory."""
    data = os.urandom(LENGTH)
    if filled:
        ctypes.memmove(at, data, LENGTH)
    done = say('write', transfers['write']())
    if filled:
        ctypes.memset(at, 0, LENGTH)
    done += say('read', transfers['read']())
    if filled and done == 2 * LENGTH:
        print('same', ctypes.string_at(at, LENGTH) == data)


def forever(transfers):
    """Writes and reads until one of both is not of the whole length."""
    running = False
    while True:
        for what, transfer in transfers.items():
            if (result := transfer()) != LENGTH:
                say(what, result)
                return
        if not running:
            print('running', flush=True)
        running = True


path, memory = sys.argv[1:3]
options = {'map': 'shared', 'do': 'both'} | dict(word.split('=') for word in sys.argv[3:])
kind, do = options.values()
address = map_memory(memory, kind)
try:
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
except OSError as e:
    sys.exit(print('open', errorcode[e.errno]))
transfers = {'write': lambda: LIBC.pwrite(fd, address, LENGTH, 0), 'read': lambda: LIBC.pread(fd, address, LENGTH, 0)}
if do == 'both':
    both(transfers, address, kind != 'readonly')
elif do == 'forever':
    forever(transfers)
else:
    say(do, transfers[do]())
