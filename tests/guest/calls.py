# SPDX-License-Identifier: GPL-2.0
"""System calls by ctypes for tests in Python: addresses, structures and errnos as in C."""

import ctypes
import os
import sys
from ctypes import byref, c_int, c_size_t, c_ulong, c_void_p
from ctypes import c_uint32 as u32, c_uint64 as u64
from errno import errorcode
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, MAP_SHARED, PAGESIZE as PAGE, PROT_READ, PROT_WRITE

RW = PROT_READ | PROT_WRITE


def structure(**fields):
    return type('Structure', (ctypes.Structure,), {'_fields_': list(fields.items())})


# Those of io_peer_mem.h and ib_peer_mem.h.
AllocArg = structure(version=u32, flags=u32, length=u64, log_align=u32, fd=c_int, bar_offset=u64, reserved=u64 * 4)
InfoArg = structure(version=u32, flags=u32, length=u64, size=u64, bar_offset=u64, domain=u32, address=u32,
                    bar=u32, pad=u32, reserved=u64 * 2)
FreeArg = structure(version=u32, flags=u32, reserved=u64 * 3)
RangeArg = structure(addr=u64, bar_offset=u64, length=u64, reserved=u64)
NearestArg = structure(version=u32, flags=u32, domain=u32, address=u32, provider_domain=u32, provider_address=u32,
                       provider_distance=u32, distance=u32, reserved=u64 * 4)
ExportArg = structure(version=u32, flags=u32, addr=u64, length=u64, fd=c_int, pad=u32, reserved=u64 * 3)
NameArg = structure(version=u32, flags=u32, addr=u64, length=u64, offset=u64, fd=c_int, pad=u32, reserved=u64 * 3)
RANGE, NEAREST, ALLOC, CAPACITY, INFO, FREE = 0xc020bb01, 0xc040bb02, 0xc040bb10, 0xc040bb11, 0xc040bb12, 0x4020bb13
EXPORT, NAME, UNNAME, QUERY = 0xc038bc01, 0x4040bc02, 0x4040bc03, 0xc040bc04


def library(path, **functions):
    """A library with these functions: the result and the arguments of each."""
    loaded = ctypes.CDLL(path, use_errno=True)
    for name, (result, *arguments) in functions.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


LIBC = library(None, ioctl=(c_int, c_int, c_ulong, c_void_p), munmap=(c_int, c_void_p, c_size_t),
               mmap=(c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_size_t),
               mprotect=(c_int, c_void_p, c_size_t, c_int), pread=(c_int, c_int, c_void_p, c_size_t, c_size_t),
               pwrite=(c_int, c_int, c_void_p, c_size_t, c_size_t))


def must(what, got, want=True):
    if got != want:
        sys.exit(f'{what}: {got!r:.200}, not {want!r:.200}')


def error(call, *arguments):
    """The errno of a call; 0: it succeeds."""
    try:
        call(*arguments)
        return 0
    except OSError as e:
        return e.errno


def answer(call, *arguments):
    """The same by its name, or "ok"."""
    return errorcode.get(error(call, *arguments), 'ok')


def ioctl(fd, cmd, arg):
    """The errno of the call."""
    return ctypes.get_errno() if LIBC.ioctl(fd, cmd, arg) else 0


def mapped(fd, length, prot=RW, flags=MAP_SHARED, offset=0):
    """The address of a mapping, which lasts until it is unmapped."""
    at = LIBC.mmap(None, length, prot, flags, fd, offset)
    if at == c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), 'mmap')
    return at


def map_error(*arguments):
    """The errno of such a mapping, which does not last."""
    return error(lambda: LIBC.munmap(mapped(*arguments), arguments[1]))


def allocate(bar, length, flags=0):
    """A file with memory of a BAR, by DM_ALLOC."""
    arg = AllocArg(1, flags, length)
    if got := ioctl(bar, ALLOC, byref(arg)):
        raise OSError(got, 'DM_ALLOC')
    return arg.fd


def export(address, length):
    """A dma-buf of this memory, by /dev/ib_peer_mem."""
    arg, device = ExportArg(1, 0, address, length), os.open('/dev/ib_peer_mem', os.O_RDWR)
    got = ioctl(device, EXPORT, byref(arg))
    os.close(device)
    if got:
        raise OSError(got, 'EXPORT')
    return arg.fd


def in_child(run):
    """The status of a child that runs this."""
    pid = os.fork()
    if not pid:
        run()
        os._exit(0)
    return os.waitpid(pid, 0)[1]
