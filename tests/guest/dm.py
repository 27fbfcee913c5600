# SPDX-License-Identifier: GPL-2.0
"""One test of device memory: those here use the ioctls and files.

usage: dm.py TEST BAR RDMA-DEVICE GID-INDEX

BAR has 64 MiB and no other user.
"""

import importlib
import platform
import resource
import signal
from ctypes import memmove, string_at
from errno import EACCES, EBADF, EBUSY, EDQUOT, EFAULT, EINVAL, EMFILE, ENODEV, ENOMEM, ENOSPC, ENOTTY

from dm_bar import *


def test_abi():
    """Reserved fields, versions and sizes in their bits are for KUnit (io_peer_mem_dm_abi)."""
    dm = allocate(FD, PAGE + 904)
    files, before = open_files(), room()
    for cmd, right, wrong in (ALLOC, FD, dm), (CAPACITY, FD, dm), (INFO, dm, FD), (FREE, dm, FD):
        arg = (u64 * 8)(1)
        must('another file', ioctl(wrong, cmd, arg), ENOTTY)
        # A structure of another size has another number.
        must('another size', ioctl(right, cmd + (8 << 16), arg), ENOTTY)
        must('no structure', ioctl(right, cmd, None), EFAULT)
        arg[0] = 2
        must('another version', ioctl(right, cmd, arg), EINVAL)
    arg = AllocArg(version=1, length=2**64 - 1, log_align=62)
    must('too long, no such offset', ioctl(FD, ALLOC, byref(arg)), EINVAL)
    must('files and memory', (open_files(), room()), (files, before))
    must('close on exec', os.get_inheritable(dm), False)

    # Output fields may hold anything on entry.
    info = InfoArg.from_buffer(bytearray(b'\xff' * sizeof(InfoArg)))
    info.version, info.flags, info.reserved = 1, 0, (0, 0)
    must('info', ioctl(dm, INFO, byref(info)), 0)
    must('length, size, BAR, pad', (info.length, info.size, info.bar, info.pad), (PAGE + 904, 2 * PAGE, 2, 0))
    print(f'{info.domain:04x}:{info.address >> 8:02x}:{info.address >> 3 & 31:02x}.{info.address & 7}')
    must('an unknown number', ioctl(FD, 0xbb14, byref(arg)), ENOTTY)
    must('write of a BAR', error(os.write, FD, bytes(8)), EINVAL)

    must('free', ioctl(dm, FREE, byref(FreeArg(1))), 0)
    must('free', room(), before + 2 * PAGE)
    must('free again', ioctl(dm, FREE, byref(FreeArg(1))), ENODEV)
    must('info after free', ioctl(dm, INFO, byref(info)), ENODEV)
    must('mmap after free', map_error(dm, PAGE, PROT_READ), ENODEV)


def test_compat():
    """By the system call of a 32-bit process, whose argument lies below 4 GiB."""
    # push %rbx; mov $54, %eax; mov %edi, %ebx; mov %esi, %ecx; int $0x80; pop %rbx; ret
    code = bytes.fromhex('53 b836000000 89fb 89f1 cd80 5b c3')
    at = mapped(-1, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS)
    memmove(at, code, len(code))
    LIBC.mprotect(at, PAGE, PROT_READ | 4)
    ioctl32 = ctypes.CFUNCTYPE(c_int, c_int, u32, u32)(at)
    # MAP_32BIT
    below = mapped(-1, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | 0x40)
    arg, info = AllocArg.from_address(below), InfoArg.from_address(below + sizeof(AllocArg))
    arg.version, arg.length, info.version = 1, 12345, 1
    must('alloc', ioctl32(FD, ALLOC, below), 0)
    must('info', ioctl32(arg.fd, INFO, below + sizeof(AllocArg)), 0)
    must('length and place', (info.length, info.bar_offset), (12345, arg.bar_offset))


def vm_flags(at):
    """Of the mapping that begins there."""
    here = False
    for line in open('/proc/self/smaps'):
        if line.split('-')[0] == f'{at:x}':
            here = True
        elif here and line.startswith('VmFlags:'):
            return line.split()


def test_map():
    dm = allocate(FD, 3 * PAGE - 5)
    for fd, length, flags, offset, want in (
            (dm, 3 * PAGE, MAP_SHARED, 0, 0), (dm, PAGE, MAP_SHARED, 2 * PAGE, 0), (dm, PAGE, MAP_PRIVATE, 0, EINVAL),
            (dm, 4 * PAGE, MAP_SHARED, 0, EINVAL), (dm, PAGE, MAP_SHARED, 3 * PAGE, EINVAL),
            (dm, PAGE, MAP_SHARED, 1 << 50, EINVAL), (FD, PAGE, MAP_SHARED, PAGE, EINVAL)):
        must(f'{length:#x} bytes at {offset:#x}', map_error(fd, length, RW, flags, offset), want)
    must('to read, private', map_error(dm, PAGE, PROT_READ, MAP_PRIVATE), EINVAL)
    whole, part, of_bar = mapped(dm, 3 * PAGE), mapped(dm, PAGE, offset=2 * PAGE), mapped(FD, PAGE)
    # A dump would read the device, and has no use for what another process writes later. Nor does mremap()
    # make a mapping longer than its memory.
    for at in whole, of_bar:
        must('no dump, no growth', {'dd', 'de'} <= set(vm_flags(at)))
    LIBC.munmap(of_bar, PAGE)
    memmove(whole + 2 * PAGE + 24, b'the same', 8)
    must('the same word', string_at(part + 24, 8), b'the same')
    where = RangeArg(addr=part + 24)
    must('range', ioctl(FD, RANGE, byref(where)), 0)
    must('length to the end', where.length, PAGE - 24)
    LIBC.munmap(whole, 3 * PAGE)
    must('free while a part is mapped', ioctl(dm, FREE, byref(FreeArg(1))), EBUSY)
    LIBC.munmap(part, PAGE)
    must('free', ioctl(dm, FREE, byref(FreeArg(1))), 0)
    must('free', room(), SIZE)


def test_read_only():
    """An allocation of a BAR opened read-only cannot be mapped writable, nor freed for others."""
    dm = allocate(os.open(PATH, os.O_RDONLY), PAGE)
    with open(f'/proc/self/fdinfo/{dm}') as info:
        must('mode', int(info.read().split('flags:')[1].split()[0], 8) & os.O_ACCMODE, os.O_RDONLY)
    must('to read', map_error(dm, PAGE, PROT_READ), 0)
    for prot in PROT_WRITE, RW:
        must('to write', map_error(dm, PAGE, prot), EACCES)
    imported = IOPM.iopm_import_dm(BAR, dm)
    read_dm(imported, 0, 8)
    must('a copy to it', IOPM.iopm_memcpy_to_dm(imported, 0, bytes(8), 8), EBADF)
    IOPM.iopm_unimport_dm(imported)
    must('free', ioctl(dm, FREE, byref(FreeArg(1))), EBADF)
    must('to read after free', map_error(dm, PAGE, PROT_READ), 0)


def test_no_leak():
    """A failed allocation or export leaks neither files nor memory."""
    exporter = os.open('/dev/ib_peer_mem', os.O_RDWR)
    before, at = (open_files(), room()), mapped(-1, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS)
    arg = AllocArg.from_address(at)
    arg.version, arg.length = 1, MIB
    # The result cannot be written back.
    LIBC.mprotect(at, PAGE, PROT_READ)
    for _ in range(100):
        must('an argument that is read-only', ioctl(FD, ALLOC, at), EFAULT)
    LIBC.mprotect(at, PAGE, RW)
    must('files and memory', (open_files(), room()), before)
    # No file descriptor is free.
    limits, fd = resource.getrlimit(resource.RLIMIT_NOFILE), allocate(FD, PAGE)
    export = ExportArg(1, 0, mapped(fd, PAGE), PAGE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    for _ in range(100):
        must('no descriptor', (ioctl(FD, ALLOC, at), ioctl(exporter, EXPORT, byref(export))), (EMFILE, EMFILE))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    LIBC.munmap(export.addr, PAGE)
    os.close(fd)
    must('memory', room(), before[1])
    # Closed without DM_FREE, while it is mapped.
    for i in range(200):
        fd = allocate(FD, MIB)
        part = mapped(fd, MIB)
        os.close(fd)
        memmove(part + i, b'1', 1)
        LIBC.munmap(part, MIB)
    must('files and memory', (open_files(), room()), before)


def test_zero():
    """The BAR has the policy $ZERO: never, free or alloc."""
    kept = os.environ.get('ZERO') == 'never'
    length = 5 * PAGE + 2 * MIB
    with memory(length) as at:
        memmove(at, b'leftover' * (length // 8), length)
    with memory(length) as at:
        must('without the flag it is as the policy says', string_at(at, length),
             (b'leftover' if kept else bytes(8)) * (length // 8))
        memmove(at, b'another ' * (length // 8), length)
    with memory(length - PAGE, ZERO) as at:
        must('with the flag it is cleared', string_at(at, length - PAGE), bytes(length - PAGE))
    # Nothing else was.
    with memory(length) as at:
        must('the page after it', string_at(at + length - PAGE, 8), b'another ' if kept else bytes(8))


def caching(at):
    """How the kernel has mapped this, by caching_test.ko."""
    path = '/sys/module/caching_test/parameters/address'
    with open(path, 'w') as f:
        f.write(f'{at:#x}')
    with open(path) as f:
        return f.read().strip()


def test_combine():
    """Both kinds of mappings show the same bytes, of BARs and of allocations."""
    # Only on x86 a mapping that is not combined permits accesses that are not aligned.
    plain_is = 'uncached' if platform.machine() == 'x86_64' else 'write-combining'
    length = 4 * MIB
    fd = allocate(FD, length)
    plain, combined, part = mapped(fd, length), mapped(fd, length, offset=WC), mapped(fd, PAGE, offset=WC + 2 * PAGE)
    must('plain', caching(plain), plain_is)
    must('combined', caching(combined), 'write-combining')
    memmove(combined, b'combined' * (length // 8), length)
    must('the same bytes', string_at(plain, length), b'combined' * (length // 8))
    memmove(part + 8, b'a word  ', 8)
    must('at an offset', string_at(plain + 2 * PAGE + 8, 8), b'a word  ')
    must('past the end', map_error(fd, 2 * PAGE, RW, MAP_SHARED, WC + length - PAGE), EINVAL)
    for at, size in (plain, length), (combined, length), (part, PAGE):
        LIBC.munmap(at, size)
    os.close(fd)

    plain = mapped(FD, length)
    must('plain', caching(plain), plain_is)
    LIBC.munmap(plain, length)
    combined = mapped(FD, length, offset=WC)
    must('combined', caching(combined), 'write-combining')
    where = RangeArg(addr=combined + 24)
    must('range', ioctl(FD, RANGE, byref(where)), 0)
    must('its offset and length', (where.bar_offset % PAGE, where.length), (24, length - 24))
    must('the BAR at an offset', map_error(FD, PAGE, RW, MAP_SHARED, WC + PAGE), EINVAL)


def test_read_write():
    length = 2 * PAGE + 100
    data = bytes((i * 7 + i // 251) & 255 for i in range(2 * PAGE))
    fd = allocate(FD, length, ZERO)
    at = mapped(fd, length)
    # Over two ends of pages, from inside of one.
    must('pwrite', os.pwrite(fd, data, 33), 2 * PAGE)
    must('the mapping shows it', string_at(at + 32, 2 * PAGE + 1), b'\0' + data)
    must('pread', os.pread(fd, 2 * PAGE, 33), data)
    must('pread up to the end', len(os.pread(fd, 3 * PAGE, PAGE)), PAGE + 100)
    must('pread at the end', os.pread(fd, 10, length), b'')
    must('pwrite up to the end', os.pwrite(fd, data[:200], length - 60), 60)
    must('pwrite at the end', error(os.pwrite, fd, b'1', length), ENOSPC)
    must('pwrite of nothing', os.pwrite(fd, b'', length), 0)
    must('an offset below 0', error(os.pread, fd, 1, -1), EINVAL)
    for call in LIBC.pread, LIBC.pwrite:
        must('a pointer', (call(fd, None, 8, 0), ctypes.get_errno()), (-1, EFAULT))
    # One after the other, as dd does.
    must('read', [len(os.read(fd, PAGE)) for _ in range(4)], [PAGE, PAGE, 100, 0])
    must('of a BAR', error(os.read, FD, 1), EINVAL)
    fd = allocate(os.open(PATH, os.O_RDONLY), PAGE)
    must('read only', len(os.pread(fd, 1, 1)), 1)
    must('no write', error(os.pwrite, fd, b'1', 1), EBADF)


def test_signals():
    """A copy ends early if a signal comes, after whole pages."""
    length = 32 * MIB
    fd = allocate(FD, length, ZERO)
    at = mapped(fd, length)
    data = b'\x5a' * length
    signal.signal(signal.SIGALRM, lambda *_: None)
    for write in True, False:
        # Again and again, until one is shorter.
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        for _ in range(200):
            n = os.pwrite(fd, data, 0) if write else len(data := os.pread(fd, length, 0))
            must('progress', n > 0)
            if n < length:
                break
        signal.setitimer(signal.ITIMER_REAL, 0)
        must('a shorter copy', n < length)
        must('whole pages', n % PAGE, 0)
        must('the last byte of it', string_at(at + n - 1, 1), data[n - 1:n])


def test_quota():
    """The quota is 4 MiB."""
    must('more', error(allocate, FD, 4 * MIB + 1), EDQUOT)
    fd = allocate(FD, 3 * MIB)
    must('more in all', error(allocate, FD, MIB + 1), EDQUOT)
    other = allocate(FD, MIB)
    must('full', map_error(FD, PAGE), EDQUOT)
    os.close(fd)
    at = mapped(FD, 3 * MIB)
    must('full', error(allocate, FD, 1), EDQUOT)
    LIBC.munmap(at, 3 * MIB)
    os.close(other)
    os.close(allocate(FD, 4 * MIB))


for module in map(importlib.import_module, ('__main__', 'dm_library', 'dm_regions')):
    if test := getattr(module, 'test_' + sys.argv[1], None):
        test()
        break
else:
    sys.exit('no such test')
print(sys.argv[1] + ': done')
