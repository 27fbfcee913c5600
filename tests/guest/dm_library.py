# SPDX-License-Identifier: GPL-2.0
"""Tests of dm.py through libiopm, which is the crate for programs in C."""

import random
import socket
import time
from ctypes import string_at
from errno import EBUSY, EFAULT, EINVAL, ENODEV, ENOMEM, ENOTTY, ENXIO

from dm_bar import *


def test_list():
    """The BAR is in the list once, with its name and address, and can be opened."""
    count, address, paths = c_int(-1), Address(), []
    devices = IOPM.iopm_get_device_list(byref(count))
    must('the end of the list', devices[count.value], None)
    for device in devices[:count.value]:
        name = IOPM.iopm_get_device_name(device).decode()
        paths.append(IOPM.iopm_get_device_path(device).decode())
        must('the path', paths[-1], '/dev/io_peer_mem/' + name)
        must('address', IOPM.iopm_get_device_address(device, byref(address)), 0)
        at = f'{address.domain:04x}:{address.bdf >> 8:02x}:{address.bdf >> 3 & 31:02x}.{address.bdf & 7}'
        must('its address', name.split('/')[0], at)
        must('it is closed', IOPM.iopm_close_device(IOPM.iopm_open_device(device)), 0)
    must('sorted, and once', (paths, paths.count(PATH)), (sorted(paths), 1))
    IOPM.iopm_free_device_list(devices)
    must('the version', IOPM.iopm_version(), b'1.0.0')


def test_query():
    """Also with structures that are smaller or larger, as those of earlier and later versions."""
    size = sizeof(DeviceAttr)
    large = (u64 * (size // 8 + 4))(*[2**64 - 1] * (size // 8 + 4))
    must('a later structure', IOPM._iopm_query_device_ex(BAR, None, byref(large), sizeof(large)), 0)
    must('unknown members', list(large[size // 8:]), [0] * 4)
    must('the same', bytes(large)[:size], bytes(query()))
    small = DeviceAttr(max=7)
    must('too small', IOPM._iopm_query_device_ex(BAR, None, byref(small), size - 8), EINVAL)
    must('untouched', small.max, 7)

    dm, attr = alloc_dm(PAGE + 904, 16), DmAttr()
    must('query', IOPM._iopm_query_dm(dm, byref(attr), sizeof(attr)), 0)
    must('length, size, alignment, BAR', (attr.length, attr.size, attr.bar_offset % 65536, attr.bar),
         (PAGE + 904, 2 * PAGE, 0, 2))
    must('prefetchable', (attr.comp_mask, attr.mmap_wc), (1, WC))
    # A program of version 1.0.
    old = DmAttr(comp_mask=9, mmap_wc=9)
    must('a smaller structure', IOPM._iopm_query_dm(dm, byref(old), DmAttr.mmap_wc.offset), 0)
    must('without that member', (old.comp_mask, old.mmap_wc), (0, 9))
    must('not an allocation', IOPM._iopm_query_dm(byref(Dm(handle=FD)), byref(old), sizeof(old)), ENOTTY)

    at, part = mapped(dm.contents.handle, 2 * PAGE, PROT_READ), Range()
    must('range', IOPM._iopm_query_range(BAR, at + PAGE + 1, byref(part), sizeof(part)), 0)
    must('its offset and length', (part.bar_offset, part.length), (attr.bar_offset + PAGE + 1, PAGE - 1))
    LIBC.munmap(at, 2 * PAGE)
    must('of host memory', IOPM._iopm_query_range(BAR, byref(attr), byref(part), sizeof(part)), EFAULT)

    nearest = Nearest()
    must('nearest', IOPM._iopm_query_nearest(BAR, byref(attr.function), byref(nearest), sizeof(nearest)), 0)
    must('to itself', (nearest.comp_mask, nearest.distance, nearest.provider_distance, nearest.provider.bdf),
         (3, 0, 0, attr.function.bdf))
    none = Address(bdf=0xfeff)
    must('to nothing', IOPM._iopm_query_nearest(BAR, byref(none), byref(nearest), sizeof(nearest)), ENXIO)
    free_dm(dm)


def test_dmabuf():
    """Ranges of an allocation; what has it in use; what is left after it was freed."""
    dm = alloc_dm(LENGTH)

    def export_error(offset, length):
        fd = IOPM.iopm_export_dmabuf(dm, offset, length)
        return os.close(fd) or 0 if fd >= 0 else ctypes.get_errno()

    for offset, length, want in ((0, LENGTH, 0), (PAGE, PAGE, 0), (0, 0, EINVAL), (8, PAGE, EINVAL), (0, 100, EINVAL),
                                 (2 * PAGE, PAGE, EINVAL), (PAGE, 2**64 - 1, EINVAL)):
        must(f'export of {length:#x} bytes at {offset:#x}', export_error(offset, length), want)
    # A child has not the mapping of the library.
    must('in a child', in_child(lambda: os._exit(not export_error(0, PAGE))), 0)
    fd, imported = IOPM.iopm_export_dmabuf(dm, PAGE, PAGE), IOPM.iopm_import_dm(None, dm.contents.handle)
    must('its size', os.lseek(fd, 0, os.SEEK_END), PAGE)
    must('free under a dma-buf', IOPM.iopm_free_dm(dm), EBUSY)
    os.close(fd)
    free_dm(dm)
    must('a copy of what is freed', IOPM.iopm_memcpy_to_dm(imported, 0, b'', 1), ENODEV)
    IOPM.iopm_unimport_dm(imported)


def test_flags():
    """Those of a program that knows no flags are what lies behind its structure."""
    free_dm(alloc_dm(PAGE, flags=2**32 - 1))
    must('unknown flags', error(alloc_dm, PAGE, 0, 1, 2**32 - 1), EINVAL)
    free_dm(alloc_dm(PAGE, 0, 1, ZERO))


def test_alloc():
    attr = query()
    must('sizes', (attr.max, attr.free, attr.largest, attr.page_size), (SIZE, SIZE, SIZE, PAGE))
    must('an unknown input', IOPM._iopm_query_device_ex(BAR, byref(u32(1)), byref(attr), sizeof(attr)), EINVAL)
    for length, log_align, comp_mask, want in (
            (0, 0, 0, EINVAL), (1, 0, 2, EINVAL), (1, 0, 1 << 31, EINVAL), (1, 27, 0, EINVAL), (SIZE + 1, 0, 0, ENOMEM)):
        must(f'{length:#x} bytes aligned to 1 << {log_align}, comp_mask {comp_mask:#x}',
             error(alloc_dm, length, log_align, comp_mask), want)
    must('still free', room(), SIZE)
    dm = alloc_dm(1)
    must('the handle is valid', (dm.contents.comp_mask & 1, dm.contents.context), (1, BAR))
    must('free with one byte allocated', room(), SIZE - PAGE)
    aligned, info = alloc_dm(5000, 21), InfoArg(version=1)
    must('info', ioctl(aligned.contents.handle, INFO, byref(info)), 0)
    must('the first that is aligned', info.bar_offset, 2 * MIB)
    free_dm(aligned)
    free_dm(dm)
    everything = alloc_dm(SIZE, 26)
    must('one byte more', error(alloc_dm, 1), ENOMEM)
    must('free with all allocated', room(), 0)
    free_dm(everything)
    must('/dev/null is not a BAR', (IOPM.iopm_open_path(b'/dev/null'), ctypes.get_errno()), (None, ENOTTY))


def test_copy():
    """Every alignment on both sides, over the end of a page; the bytes around stay unchanged."""
    dm, at, host = alloc_dm(LENGTH), PAGE - 96, bytes(0x80 | i for i in range(128))
    got = ctypes.create_string_buffer(136)
    for to in range(17):
        for length in range(40):
            source = length % 9
            want = bytearray(b'\x11' * 128)
            write_dm(dm, at, bytes(want))
            want[32 + to:32 + to + length] = host[source:source + length]
            # The address of the bytes within a buffer counts.
            copy = ctypes.create_string_buffer(host, 128)
            must('write', IOPM.iopm_memcpy_to_dm(dm, at + 32 + to, byref(copy, source), length), 0)
            must('the bytes', read_dm(dm, at, 128), bytes(want))
            got.raw = b'\x22' * 136
            must('read', IOPM.iopm_memcpy_from_dm(byref(got, 32 + source), dm, at + 32 + to, length), 0)
            must('the bytes', got.raw[31 + source:33 + source + length],
                 b'\x22' + host[source:source + length] + b'\x22')
    free_dm(dm)


def test_import():
    """The other process has no file of the BAR."""
    here, there = socket.socketpair()
    child = os.fork()
    if not child:
        here.close()
        IOPM.iopm_close_device(BAR)
        dm = IOPM.iopm_import_dm(None, socket.recv_fds(there, 1, 1)[1][0])
        must('the text of the parent', read_dm(dm, PAGE - 6, 15), b'from the parent')
        write_dm(dm, PAGE - 6, b'from the child ')
        must('map', string_at(mapped(dm.contents.handle, PAGE, PROT_READ) + PAGE - 6, 4), b'from')
        there.send(b'1')
        must('the end', there.recv(1), b'2')
        os._exit(0)
    there.close()
    dm = alloc_dm(PAGE + 904)
    write_dm(dm, PAGE - 6, b'from the parent')
    socket.send_fds(here, [b'0'], [dm.contents.handle])
    must('the child', here.recv(1), b'1')
    must('free while the child has it mapped', IOPM.iopm_free_dm(dm), EBUSY)
    # The failed free has changed nothing.
    must('the text of the child', read_dm(dm, PAGE - 6, 15), b'from the child ')
    here.send(b'2')
    must('the child', os.waitpid(child, 0)[1], 0)
    free_dm(dm)
    must('free', room(), SIZE)


def test_locked():
    """mlockall() accesses the pages of each new mapping, also of those that the library makes."""
    # MCL_CURRENT | MCL_FUTURE
    must('mlockall', LIBC.mlockall(3), 0)
    dm = alloc_dm(3 * PAGE)
    write_dm(dm, PAGE - 2, b'text')
    must('the bytes', read_dm(dm, PAGE - 2, 4), b'text')
    free_dm(dm)
    must('free', room(), SIZE)


def test_stress():
    """Allocations by several processes at once, some never freed explicitly."""
    def work(number):
        draw = random.Random(number)
        for n in range(150):
            length, word = draw.randint(8, 2 * MIB), (number << 32 | n).to_bytes(8)
            try:
                dm = alloc_dm(length, draw.randrange(22))
            except OSError as e:
                must('an allocation', e.errno, ENOMEM)
                continue
            write_dm(dm, length - 8, word)
            time.sleep(draw.random() * 0.0003)
            must('of this process', read_dm(dm, length - 8, 8), word)
            if n % 10:
                free_dm(dm)
        os._exit(0)

    children = []
    for number in range(4):
        children.append(os.fork())
        if not children[-1]:
            work(number)
    must('the processes', [os.waitpid(child, 0)[1] for child in children], [0] * 4)
    must('free', room(), SIZE)
