# SPDX-License-Identifier: GPL-2.0
"""Tests of dm.py with memory regions, with the removal of the device, and with words that change."""

import signal
import time
from ctypes import memmove, memset, string_at
from errno import EBUSY, EINVAL, ENODEV

from dm_bar import *
from verbs import *

# IBV_ACCESS_ZERO_BASED
ZERO_BASED = 1 << 5
IOPM.iopm_reg_dm_mr.restype, IOPM.iopm_reg_dm_mr.argtypes = MR, (c_void_p, c_void_p, u64, c_size_t, u32)
RDMA = VERBS.rdma_open(sys.argv[3].encode())
RDMA.gid_index = int(sys.argv[4])
HOST = mapped(-1, 2 * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS)
memset(HOST, 0x5a, 2 * PAGE)


def reg(dm, offset=0, length=LENGTH, access=ACCESS_ALL | ZERO_BASED):
    mr = IOPM.iopm_reg_dm_mr(RDMA.pd, dm, offset, length, access)
    if not mr:
        raise OSError(ctypes.get_errno(), 'iopm_reg_dm_mr')
    return mr


def word(dm, place):
    return int.from_bytes(read_dm(dm, place, 8), 'little')


def test_reg():
    dm, right = alloc_dm(LENGTH), ACCESS_ALL | ZERO_BASED
    for offset, length, access, want in (
            (0, LENGTH, right, 0), (0, 1, right, 0), (PAGE, LENGTH - PAGE, right, 0), (0, 100, ZERO_BASED, 0),
            (0, 100, ACCESS_ALL, EINVAL), (0, 0, right, EINVAL), (8, 100, right, EINVAL), (0, LENGTH + 1, right, EINVAL),
            (3 * PAGE, 1, right, EINVAL), (PAGE, 2**64 - 1, right, EINVAL), (2**64 - PAGE, 2 * PAGE, right, EINVAL)):
        must(f'{length:#x} bytes at {offset:#x}, access {access:#x}',
             error(lambda: VERBS.rdma_deregister(reg(dm, offset, length, access))), want)
    mr = reg(dm)
    must('addresses are offsets', (mr.contents.addr, mr.contents.length), (None, LENGTH))
    must('free under a region', IOPM.iopm_free_dm(dm), EBUSY)
    VERBS.rdma_deregister(mr)
    free_dm(dm)


def test_rdma():
    dm = alloc_dm(LENGTH)
    mr, late = reg(dm), reg(dm, PAGE, 5000)
    host, pair = VERBS.rdma_register(RDMA, HOST, 2 * PAGE), VERBS.pair_make(RDMA)
    data, place = bytes(i * 7 & 255 for i in range(5000)), PAGE - 1095
    # By rkey: the address is the offset, also across pages.
    memmove(HOST, data, 5000)
    VERBS.pair_must_rw(pair, WRITE, host, HOST, mr, place, 5000)
    must('what was written', read_dm(dm, place, 5000), data)
    memset(HOST, 0, 5000)
    VERBS.pair_must_rw(pair, READ, host, HOST, mr, place, 5000)
    must('what was read', string_at(HOST, 5000), data)
    # The second region is zero-based too.
    VERBS.pair_must_rw(pair, READ, host, HOST, late, 5, 100)
    must('what was read of the second', string_at(HOST, 100), read_dm(dm, PAGE + 5, 100))
    # By lkey: from one region to the other.
    VERBS.pair_must_rw(pair, WRITE, late, 8, mr, 16, 64)
    must('from region to region', read_dm(dm, 16, 64), read_dm(dm, PAGE + 8, 64))

    write_dm(dm, PAGE + 8, (1000).to_bytes(8, 'little'))
    for what, op, region, remote, operands, old, new in (
            ('fetch-and-add', FETCH_AND_ADD, mr, PAGE + 8, (5, 0), 1000, 1005),
            ('at the second region', FETCH_AND_ADD, late, 8, (6, 0), 1005, 1011),
            ('compare-and-swap of another value', COMPARE_AND_SWAP, late, 8, (1, 2), 1011, 1011),
            ('compare-and-swap', COMPARE_AND_SWAP, late, 8, (1011, 2), 1011, 2)):
        got = VERBS.pair_must_atomic(pair, op, host, region, remote, *operands)
        must(what, (got, word(dm, PAGE + 8)), (old, new))

    # The region ends inside its last page.
    must('past the end', VERBS.pair_rw(pair, WRITE, host, HOST, mr, LENGTH - 10, 11), DENIED)
    VERBS.pair_free(pair)
    for region in host, late, mr:
        VERBS.rdma_deregister(region)
    free_dm(dm)


def test_mr_keeps():
    """Unimported, not freed: only the pages of the region stay allocated."""
    before, dm = room(), alloc_dm(8 * PAGE)
    mr, host, pair = reg(dm, 0, 2 * PAGE), VERBS.rdma_register(RDMA, HOST, 2 * PAGE), VERBS.pair_make(RDMA)
    IOPM.iopm_unimport_dm(dm)
    must('the region keeps the allocation', room(), before - 8 * PAGE)
    VERBS.pair_must_rw(pair, WRITE, host, HOST, mr, 100, 5000)
    VERBS.pair_free(pair)
    VERBS.rdma_deregister(mr)
    must('and free', room(), before)


def until_error(call, *arguments):
    """The first error of a call that succeeds for some time."""
    while not (got := call(*arguments)):
        time.sleep(0.01)
    return got


def test_gone():
    """The device is removed: one allocation is in use, one idle, one under a region."""
    dm, idle, below = alloc_dm(MIB), alloc_dm(PAGE), alloc_dm(LENGTH)
    mr, host, pair = reg(below), VERBS.rdma_register(RDMA, HOST, 2 * PAGE), VERBS.pair_make(RDMA)
    data, attr, back = bytes(MIB), DeviceAttr(), ctypes.create_string_buffer(8)
    VERBS.pair_must_rw(pair, WRITE, host, HOST, mr, 0, 5000)
    print('running', flush=True)
    # The device is removed during one of these copies.
    while not (got := IOPM.iopm_memcpy_to_dm(dm, 0, data, MIB)):
        pass
    print('copy to removed memory:', errorcode[got])
    must('the error', got, ENODEV)
    must('again', IOPM.iopm_memcpy_to_dm(dm, 5, data, 100), ENODEV)
    must('copy from removed memory', IOPM.iopm_memcpy_from_dm(back, dm, 0, 8), ENODEV)
    # The allocations are revoked one after the other.
    must('first access', until_error(IOPM.iopm_memcpy_from_dm, back, idle, 0, 8), ENODEV)
    must('bounds', IOPM.iopm_memcpy_from_dm(back, dm, MIB, 8), EINVAL)
    must('an access', VERBS.pair_rw(pair, WRITE, host, HOST, mr, 0, 5000), DENIED)
    # The device node is removed first, the memory shortly after.
    must('allocate', until_error(error, alloc_dm, 1), ENODEV)
    must('query', until_error(IOPM._iopm_query_device_ex, BAR, None, byref(attr), sizeof(attr)), ENODEV)
    must('import', (bool(IOPM.iopm_import_dm(BAR, dm.contents.handle)), ctypes.get_errno()), (False, ENODEV))
    must('map', map_error(dm.contents.handle, PAGE, PROT_READ), ENODEV)
    must('register', error(reg, dm, 0, 100) != 0)
    # One without an access before, and one under a revoked region.
    for gone in dm, idle, below:
        free_dm(gone)
    VERBS.pair_free(pair)
    VERBS.rdma_deregister(mr)


def alternate(value):
    """Stores values that differ in every byte, until it is killed, with its parent at the latest."""
    # PR_SET_PDEATHSIG
    LIBC.prctl(1, signal.SIGKILL)
    while True:
        value.value = 0
        value.value = 2**64 - 1


def test_words():
    """A copy by the kernel does not split an aligned word, which may be a counter that changes."""
    dm, words, seen, tries = alloc_dm(PAGE), (u64 * 3)(), set(), 0
    fd = dm.contents.handle
    shared = mapped(fd, PAGE)
    child = os.fork()
    if not child:
        alternate(u64.from_address(shared + 8))
    # On a busy machine the writer may not run during the first reads.
    while tries < 30000 or (tries < 1000000 and len(seen) < 2):
        tries += 1
        if tries > 30000:
            os.sched_yield()
        # From inside of a word to inside of a word.
        must('read', LIBC.pread(fd, ctypes.addressof(words) + 5, 16, 5), 16)
        seen.add(words[1])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    must('the values', seen, {0, 2**64 - 1})
    LIBC.munmap(shared, PAGE)
    free_dm(dm)
