# SPDX-License-Identifier: GPL-2.0
"""The BAR of dm.py, and what its tests share: libiopm by ctypes, allocations and copies."""

import contextlib
from ctypes import POINTER, c_char_p, sizeof

from calls import *

MIB = 1 << 20
SIZE = 64 * MIB
# Two pages and a part of a third one.
LENGTH = 2 * PAGE + 1808
# IO_PEER_MEM_MMAP_WC, IO_PEER_MEM_DM_ZERO
WC, ZERO = 1 << 43, 1

# Those of iopm.h.
DeviceAttr = structure(comp_mask=u32, max=u64, free=u64, largest=u64, page_size=u64)
AllocAttr = structure(length=c_size_t, log_align=u32, comp_mask=u32, flags=u32)
Dm = structure(context=c_void_p, comp_mask=u32, handle=u32)
Address = structure(domain=u32, bdf=u32)
DmAttr = structure(comp_mask=u32, bar=u32, function=Address, length=u64, size=u64, bar_offset=u64, mmap_wc=u64)
Range = structure(comp_mask=u32, reserved=u32, bar_offset=u64, length=u64)
Nearest = structure(comp_mask=u32, distance=u32, provider_distance=u32, provider=Address)
IOPM = library(
    '/mnt/programs/libiopm.so', iopm_version=(c_char_p,), iopm_open_path=(c_void_p, c_char_p),
    iopm_open_device=(c_void_p, c_void_p), iopm_close_device=(c_int, c_void_p),
    iopm_get_device_list=(POINTER(c_void_p), c_void_p), iopm_free_device_list=(None, c_void_p),
    iopm_get_device_name=(c_char_p, c_void_p), iopm_get_device_path=(c_char_p, c_void_p),
    iopm_get_device_address=(c_int, c_void_p, c_void_p),
    _iopm_query_device_ex=(c_int, c_void_p, c_void_p, c_void_p, c_size_t),
    _iopm_query_nearest=(c_int, c_void_p, c_void_p, c_void_p, c_size_t),
    _iopm_query_range=(c_int, c_void_p, c_void_p, c_void_p, c_size_t),
    _iopm_query_dm=(c_int, c_void_p, c_void_p, c_size_t), iopm_alloc_dm=(POINTER(Dm), c_void_p, c_void_p),
    iopm_free_dm=(c_int, c_void_p), iopm_import_dm=(POINTER(Dm), c_void_p, u32), iopm_unimport_dm=(None, c_void_p),
    iopm_memcpy_to_dm=(c_int, c_void_p, u64, c_void_p, c_size_t),
    iopm_memcpy_from_dm=(c_int, c_void_p, c_void_p, u64, c_size_t),
    iopm_export_dmabuf=(c_int, c_void_p, u64, c_size_t))
PATH = sys.argv[2]
BAR = IOPM.iopm_open_path(PATH.encode())
if not BAR:
    sys.exit(f'{PATH}: {os.strerror(ctypes.get_errno())}')
FD = c_int.from_address(BAR).value


@contextlib.contextmanager
def memory(length, flags=0):
    """An allocation that is mapped."""
    fd = allocate(FD, length, flags)
    at = mapped(fd, length)
    yield at
    LIBC.munmap(at, length)
    os.close(fd)


def alloc_dm(length, log_align=0, comp_mask=0, flags=0):
    """Through the library; raises an error."""
    dm = IOPM.iopm_alloc_dm(BAR, byref(AllocAttr(length, log_align, comp_mask, flags)))
    if not dm:
        raise OSError(ctypes.get_errno(), 'iopm_alloc_dm')
    return dm


def free_dm(dm):
    must('free', IOPM.iopm_free_dm(dm), 0)


def read_dm(dm, at, length):
    bytes_ = ctypes.create_string_buffer(length)
    must('read', IOPM.iopm_memcpy_from_dm(bytes_, dm, at, length), 0)
    return bytes_.raw


def write_dm(dm, at, data):
    must('write', IOPM.iopm_memcpy_to_dm(dm, at, data, len(data)), 0)


def query():
    attr = DeviceAttr()
    must('query', IOPM._iopm_query_device_ex(BAR, None, byref(attr), sizeof(attr)), 0)
    must('largest <= free <= max', attr.largest <= attr.free <= attr.max)
    return attr


def room():
    return query().free


def open_files():
    return len(os.listdir('/proc/self/fd'))
