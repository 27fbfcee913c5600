# SPDX-License-Identifier: GPL-2.0
"""The names of memory: /dev/ib_peer_mem, or with -r /dev/dmabuf_reg.

usage: named.py [-r] TEST [ARGUMENT]

"hold" names two dma-bufs of PAGES pages, closes them, prints "ready", and ends at the end of its input; "hold exec"
executes sleep(1) then. "hold child" has a child with the files of the process, but not its memory. "hold closed" has
closed the device as well.
"""

import fcntl
import threading
import time
from errno import EACCES, EBADF, EEXIST, EFAULT, EINVAL, ENOENT, ENOSPC, ENOTTY

from calls import *

# Of the dma-bufs that "hold" has. No other has this size.
PAGES = 61
# No memory is needed at the addresses.
BASE = 0x200000000000
# IB_PEER_MEM_*
UNNAME_DMABUF, NAME_REPLACE = 1, 2
UDMABUF_CREATE, UdmabufArg = 0x40187542, structure(memfd=u32, flags=u32, offset=u64, size=u64)
DMA_HEAP_ALLOC, HeapArg = 0xc0184800, structure(length=u64, fd=c_int, fd_flags=u32, heap_flags=u64)
# The protocol of /dev/dmabuf_reg.
RegArg = structure(base=u64, size=u64, fd=c_int, op=u32)
REG_ADD, REG_REMOVE_ADDR, REG_REMOVE_FD, REG_QUERY = range(4)


def dmabuf(pages):
    """A new one: of the BAR $BAR, or of udmabuf."""
    size = pages * PAGE
    if 'BAR' in os.environ:
        bar = os.open(os.environ['BAR'], os.O_RDWR)
        at = mapped(bar, size)
        fd = export(at, size)
        LIBC.munmap(at, size)
        os.close(bar)
        return fd
    memory, device = os.memfd_create('named', os.MFD_ALLOW_SEALING), os.open('/dev/udmabuf', os.O_RDWR)
    os.truncate(memory, size)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    fd = LIBC.ioctl(device, UDMABUF_CREATE, byref(UdmabufArg(memfd=memory, size=size)))
    must('udmabuf', fd >= 0)
    os.close(memory)
    os.close(device)
    return fd


def pages(page, n, fd=0, offset=0, flags=0):
    return NameArg(1, flags, BASE + page * PAGE, n * PAGE, offset * PAGE, fd)


def call(cmd, arg):
    return ioctl(control, cmd, byref(arg))


def name(page, n, fd, offset=0, flags=0):
    return call(NAME, pages(page, n, fd, offset, flags))


def unname(page, n):
    return call(UNNAME, pages(page, n))


def unname_dmabuf(fd):
    return call(UNNAME, NameArg(1, UNNAME_DMABUF, fd=fd))


def query(page):
    return call(QUERY, pages(page, 0))


def test_errors():
    """Each bad argument has its errno, and changes nothing."""
    fd, file, path = dmabuf(4), os.open('/dev/null', os.O_RDWR), os.open('/', os.O_PATH)
    # With five levels of page tables.
    user_end = 1 << 56
    for addr, length, offset in (
            (BASE, 0, 0), (BASE + 1, PAGE, 0), (BASE, PAGE + 1, 0), (BASE, PAGE, 1), (BASE, 5 * PAGE, 0),
            (BASE, PAGE, 4 * PAGE), (BASE, 2 * PAGE, 3 * PAGE), (BASE, PAGE, -PAGE), (BASE, PAGE, -1), (-PAGE, PAGE, 0),
            (-PAGE, 2 * PAGE, 0), (user_end, PAGE, 0), (user_end - PAGE, 2 * PAGE, 0), (0xffff888000000000, PAGE, 0),
            (BASE, -PAGE, 0)):
        arg = NameArg(1, 0, addr, length, offset, fd)
        must(f'{length} bytes at {addr:#x}, offset {offset}', call(NAME, arg), EINVAL)
    for cmd in NAME, UNNAME, QUERY:
        must('flags', call(cmd, pages(0, 1, fd, 0, 4)), EINVAL)
        must('no structure', ioctl(control, cmd, None), EFAULT)
        must('another size', call(cmd ^ 4 << 16, pages(0, 1, fd)), ENOTTY)
    for number, want in (-1, EBADF), (999, EBADF), (path, EBADF), (file, EINVAL):
        must(f'descriptor {number}', name(0, 1, number), want)
    # The debug kernel has no such heap.
    if os.path.exists('/dev/dma_heap/system'):
        heap, arg = os.open('/dev/dma_heap/system', os.O_RDWR), HeapArg(4 * PAGE, 0, os.O_WRONLY | os.O_CLOEXEC)
        if not ioctl(heap, DMA_HEAP_ALLOC, byref(arg)):
            must('not for reading', name(0, 1, arg.fd), EACCES)
    must('no dma-buf', [unname_dmabuf(number) for number in (-1, file, fd)], [EBADF, EINVAL, ENOENT])
    must('no name', [unname(0, 1), query(0)], [ENOENT] * 2)

    must('a name', name(8, 4, fd), 0)
    must('another in a part', name(7, 2, fd), EEXIST)
    must('the end of a part', unname(8, 3), EINVAL)
    must('the end', unname(0, 20), 0)


def test_names():
    """A name is returned as it was given, and counts."""
    fd, other = dmabuf(8), dmabuf(2)
    must('twice, and another', [name(16, 2, fd, 5), name(16, 2, fd, 5), name(18, 2, other)], [0] * 3)
    arg = pages(17, 0)
    arg.addr += 5
    must('query', call(QUERY, arg), 0)
    must('the name', (arg.addr, arg.length, arg.offset, arg.fd), (BASE + 16 * PAGE, 2 * PAGE, 5 * PAGE, fd))
    must('beside them', [query(15), query(20)], [ENOENT] * 2)
    os.close(fd)
    must('once less', [unname(16, 4), query(16), query(18)], [0, 0, ENOENT])
    must('none', [unname(16, 2), query(16)], [0, ENOENT])
    # Descriptors that were duplicated are those of one dma-buf.
    fd = os.dup(other)
    must('names', [name(0, 1, fd), name(1, 1, other, 1), name(0, 1, other)], [0] * 3)
    must('one of each less', [unname_dmabuf(fd), query(0), query(1)], [0, 0, ENOENT])
    must('none', [unname_dmabuf(other), query(0)], [0, ENOENT])


def test_limit(limit):
    """The limit is the parameter max_names."""
    fd = dmabuf(1)
    must('names', {name(i, 1, fd) for i in range(int(limit))}, {0})
    must('one more', name(int(limit), 1, fd), ENOSPC)
    must('of another process', in_child(lambda: must('a name', name(int(limit) + 1, 1, fd), 0)), 0)


def in_thread(run):
    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_fork():
    """Threads share names, vfork(2) too; a fork has none, and does not remove its parent's."""
    fd = dmabuf(4)
    must('a name', name(0, 4, fd), 0)
    in_thread(lambda: name(4, 1, fd)).join()
    must('the name of a thread', query(4), 0)

    def child():
        must('a child', [query(0), unname_dmabuf(fd), name(1, 2, fd)], [ENOENT, ENOENT, 0])
    must('a child', in_child(child), 0)
    must('the name', query(0), 0)
    # As vfork(2): CLONE_VM | CLONE_VFORK | SIGCHLD.
    run = ctypes.CFUNCTYPE(c_int, c_void_p)(lambda _: query(0))
    stack = mapped(-1, 1 << 20, RW, MAP_PRIVATE | MAP_ANONYMOUS)
    child = LIBC.clone(run, c_void_p(stack + (1 << 20)), 0x100 | 0x4000 | 17, None)
    must('the child of vfork', os.waitpid(child, 0), (child, 0))
    must('the end', unname(0, 5), 0)


def test_replace():
    """There is no moment without a name, in the time of many switches between the threads."""
    fd, end, results = dmabuf(2), time.monotonic() + 4, set()

    def replace():
        while time.monotonic() < end:
            results.add(name(40, 2, fd, flags=NAME_REPLACE))
    must('a name', name(40, 2, fd), 0)
    thread = in_thread(replace)
    while time.monotonic() < end:
        must('query', query(40), 0)
    thread.join()
    must('the replacements', results, {0})
    must('the end', unname(40, 2), 0)


def reg(op, page=0, n=0, fd=0, answer=None):
    arg = answer or RegArg()
    arg.base, arg.size, arg.fd, arg.op = BASE + page * PAGE, n * PAGE, fd, op
    return call(1, arg)


def test_dmabuf_reg():
    global control
    fd, other, answer = dmabuf(8), dmabuf(8), RegArg()
    must('another number', call(5, answer), ENOTTY)
    must('no structure', ioctl(control, 1, None), EFAULT)
    must('wrong arguments', [reg(4, 0, 8, fd), reg(REG_ADD, 0, 0, fd), reg(REG_ADD, 0, 9, fd), reg(REG_ADD, 0, 8, -1)],
         [EINVAL, EINVAL, EINVAL, EBADF])
    must('nothing there', [reg(REG_QUERY, 0, 8), reg(REG_REMOVE_ADDR), reg(REG_REMOVE_FD, fd=fd)],
         [ENOENT, EINVAL, EINVAL])

    # As the provider does: the second registration queries first.
    must('add and query', [reg(REG_ADD, 0, 8, fd), reg(REG_QUERY, 0, 8, answer=answer)], [0, 0])
    must('add', [reg(REG_ADD, 0, 8, answer.fd), reg(REG_ADD, 7, 2, other), reg(REG_ADD, 8, 8, other)], [0, EINVAL, 0])
    must('query', reg(REG_QUERY, 3, 2, answer=answer), 0)
    must('the answer', (answer.base, answer.size, answer.fd, answer.op), (BASE, 8 * PAGE, fd, REG_QUERY))
    must('not one', [reg(REG_QUERY, 7, 2), reg(REG_QUERY, 15, 2), reg(REG_QUERY, 16, 1)], [EINVAL, EINVAL, ENOENT])
    must('once less', [reg(REG_REMOVE_FD, fd=fd), reg(REG_QUERY, 0, 8)], [0, 0])
    # The number is the key, also once it is closed.
    os.close(fd)
    must('none', [reg(REG_REMOVE_FD, fd=fd), reg(REG_REMOVE_FD, fd=fd), reg(REG_QUERY, 0, 8)], [0, EINVAL, ENOENT])
    must('by the address', [reg(REG_REMOVE_ADDR, 12), reg(REG_QUERY, 8, 8)], [0, ENOENT])

    # The names are those of /dev/ib_peer_mem.
    must('a name', reg(REG_ADD, 0, 8, other), 0)
    control = os.open('/dev/ib_peer_mem', os.O_RDWR)
    must('query and end', [query(7), unname_dmabuf(other)], [0, 0])


def test_hold(how):
    for page in 0, PAGES:
        fd = dmabuf(PAGES)
        must('a name', name(page, PAGES, fd), 0)
        os.close(fd)
    if how == 'closed':
        os.close(control)
    if how == 'child':
        child = os.fork()
        if not child:
            os.execl('/bin/sleep', 'sleep', '1000')
        print('child', child)
    print('ready', flush=True)
    os.read(0, 1)
    if how == 'exec':
        os.execl('/bin/sleep', 'sleep', '1000')


arguments = sys.argv[1:]
protocol = arguments[0] == '-r'
control = os.open('/dev/dmabuf_reg' if protocol else '/dev/ib_peer_mem', os.O_RDWR)
os.set_inheritable(control, True)
globals()['test_' + arguments[protocol]](*arguments[1 + protocol:])
