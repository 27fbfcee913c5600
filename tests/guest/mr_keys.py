# SPDX-License-Identifier: GPL-2.0
"""Keys that refer to MRs of device memory, indirect keys of mlx5 and memory windows; MRs after a fork, in
another process, and at one address.

usage: mr_keys.py DEVICE GID-INDEX ACTION BAR-A BAR-B

Each action prints "ok" at its end. Requester and responder are two queue pairs of this process. The
responder makes the keys, by work requests of its own, and the requester accesses memory by them.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import sys
import threading

import pyverbs.enums as e
import pyverbs.providers.mlx5.mlx5_enums as dve
from pyverbs.base import inc_rkey
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.providers.mlx5.mlx5dv import Mlx5Context, Mlx5DVContextAttr, Mlx5DVQPInitAttr, Mlx5QP
from pyverbs.providers.mlx5.mlx5dv_mkey import Mlx5Mkey, Mlx5MrInterleaved
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPCap, QPInitAttrEx
from pyverbs.wr import SGE

from calls import c_int, c_size_t, c_void_p, library
from connect import ALL, REMOTE, connect

SIZE = 1 << 20
DENIED = e.IBV_WC_REM_ACCESS_ERR
SIGNALED = e.IBV_SEND_SIGNALED
IMPORTED = b'imported' * 8
# BENCH_MEMORY_INVALIDATE of tests/bench/bench_memory.h, with the number of regions.
INVALIDATE = ord('b') << 8 | 1


class Memory:
    """A mapping of a BAR, or of host memory, and what a CPU sees of it."""

    def __init__(self, path=None):
        self.fd = os.open(path, os.O_RDWR) if path else -1
        self.map = mmap.mmap(self.fd, SIZE)
        self.addr = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def mr(self, offset=0, length=SIZE, access=ALL):
        return MR(PAIRS.pd, length, access, address=self.addr + offset)


class Pair:
    """A requester and a responder that are connected."""

    def __init__(self):
        self.cq = CQ(PAIRS.ctx, 256)
        self.near, self.far = (self.create() for _ in range(2))
        connect((self.near, self.far), PAIRS.ctx, PAIRS.index)

    def create(self):
        ops = (e.IBV_QP_EX_WITH_RDMA_WRITE | e.IBV_QP_EX_WITH_RDMA_READ |
               e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | e.IBV_QP_EX_WITH_BIND_MW)
        init = QPInitAttrEx(cap=QPCap(max_send_wr=16, max_recv_wr=16, max_inline_data=512), pd=PAIRS.pd,
                            scq=self.cq, rcq=self.cq, qp_type=e.IBV_QPT_RC, send_ops_flags=ops,
                            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
        dv = Mlx5DVQPInitAttr(
            comp_mask=dve.MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | dve.MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
            create_flags=dve.MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
            send_ops_flags=dve.MLX5DV_QP_EX_WITH_MR_LIST | dve.MLX5DV_QP_EX_WITH_MR_INTERLEAVED)
        return Mlx5QP(PAIRS.ctx, init, dv)

    def status(self):
        """Of the next completion."""
        while True:
            n, done = self.cq.poll(1)
            if n:
                return done[0].status

    def post(self, qp, build, flags=SIGNALED):
        qp.wr_start()
        qp.wr_flags = flags
        build(qp)
        qp.wr_complete()
        return self.status()

    def make(self, build):
        """A work request of the responder, that must succeed."""
        must(self.post(self.far, build, SIGNALED | e.IBV_SEND_INLINE), e.IBV_WC_SUCCESS, 'work request on keys')

    def access(self, what, rkey, at, length):
        """One access of the requester, from or to its own memory; returns the status."""
        def build(qp):
            if what == 'add':
                qp.wr_atomic_fetch_add(rkey, at, 1)
            else:
                getattr(qp, f'wr_rdma_{what}')(rkey, at)
            qp.wr_set_sge(SGE(HOST.addr, length, PAIRS.host.lkey))
        return self.post(self.near, build)

    def list(self, sges, access=ALL):
        key = Mlx5Mkey(PAIRS.pd, dve.MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 31)
        self.make(lambda qp: qp.wr_mr_list(key, access, sges))
        return key

    def window(self, kind, mr, offset, length):
        """A window of type 1 or 2 on an MR: its key, and what keeps it."""
        window = MW(PAIRS.pd, kind)
        info = MWBindInfo(mr, mr.buf + offset, length, REMOTE)
        if kind == e.IBV_MW_TYPE_1:
            self.far.bind_mw(window, MWBind(info, SIGNALED))
            must(self.status(), e.IBV_WC_SUCCESS, 'bind')
            return window.rkey, (window, mr)
        rkey = inc_rkey(window.rkey)
        self.make(lambda qp: qp.wr_bind_mw(window, rkey, info))
        return rkey, (window, mr)


class PAIRS:
    """What all pairs share."""


def must(got, want, what):
    if got != want:
        sys.exit(f'{what}: {got!r:.200}, not {want!r:.200}')


def say(*words):
    print(*words, flush=True)


def pieces(memories, count, access=ALL):
    """MRs with odd ends, in turn of the memories, and what to make a list of."""
    mrs = [memories[n % len(memories)].mr(n * 8192 + 96, 4008 + 8 * n, access) for n in range(count)]
    return mrs, [SGE(mr.buf, mr.length, mr.lkey) for mr in mrs]


def transfer(rkey, mrs, seed):
    """All of a key by RDMA: each MR has its part of the pattern, and no byte beside it changes."""
    total = sum(mr.length for mr in mrs)
    data = (bytes(range(251)) * (total // 251 + 2))[seed:seed + total]
    edges = [(mr, ctypes.string_at(mr.buf - 8, 8), ctypes.string_at(mr.buf + mr.length, 8)) for mr in mrs]
    pair = Pair()
    HOST.map[:total] = data
    must(pair.access('write', rkey, 0, total), e.IBV_WC_SUCCESS, 'write')
    at = 0
    for mr in mrs:
        must(ctypes.string_at(mr.buf, mr.length), data[at:at + mr.length], f'the bytes of the MR at {at}')
        at += mr.length
    for mr, before, after in edges:
        must(ctypes.string_at(mr.buf - 8, 8), before, 'the bytes before an MR')
        must(ctypes.string_at(mr.buf + mr.length, 8), after, 'the bytes after an MR')
    HOST.map[:total] = bytes(total)
    must(pair.access('read', rkey, 0, total), e.IBV_WC_SUCCESS, 'read')
    must(HOST.map[:total], data, 'what is read')
    # In the second MR, whose end is a multiple of 8.
    at = mrs[0].length + 8
    was = int.from_bytes(ctypes.string_at(mrs[1].buf + 8, 8), 'little')
    must(pair.access('add', rkey, at, 8), e.IBV_WC_SUCCESS, 'atomic')
    must(int.from_bytes(ctypes.string_at(mrs[1].buf + 8, 8), 'little'), (was + 1) % 2**64, 'the sum')
    must(pair.access('write', rkey, total - 8, 16), DENIED, 'a write past the end')


def lists(a, b):
    """A list of 2 MRs of one BAR, and one of 31 of two, relaxed; lists of these lists."""
    for count, memories, access in ((2, [a], ALL), (31, [a, b], ALL | e.IBV_ACCESS_RELAXED_ORDERING)):
        mrs, sges = pieces(memories, count, access)
        pair = Pair()
        key = pair.list(sges)
        transfer(key.rkey, mrs, count)
        outer = pair.list([SGE(0, sum(mr.length for mr in mrs), key.lkey)])
        transfer(outer.rkey, mrs, count + 1)
        outer.close()
        key.close()


def targets(a, b):
    """Keys that reach the first BAR in all ways, by name: the key, where the BAR begins, a pair that works."""
    mrs, sges = pieces([b, a], 4)
    found = {}
    pair = Pair()
    key = pair.list(sges)
    found['list'] = key.rkey, mrs[0].length, pair, (key, mrs)
    pair = Pair()
    outer = pair.list([SGE(0, sum(mr.length for mr in mrs), key.lkey)])
    found['list of a list'] = outer.rkey, mrs[0].length, pair, outer
    pair = Pair()
    rows = Mlx5Mkey(PAIRS.pd, dve.MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, 4)
    layout = [Mlx5MrInterleaved(mr.buf, 100, 100, mr.lkey) for mr in mrs[:2]]
    pair.make(lambda qp: qp.wr_mr_interleaved(rows, ALL, 4, layout))
    found['interleaved'] = rows.rkey, 100, pair, rows
    for kind in (e.IBV_MW_TYPE_1, e.IBV_MW_TYPE_2):
        pair = Pair()
        rkey, window = pair.window(kind, mrs[1], 8, 4000)
        found[f'window of type {kind}'] = rkey, mrs[1].buf + 8, pair, window
    return found, mrs


def denied(found, mrs):
    """No key reaches the first BAR any more, in any way, and those that reach the other one as well still do."""
    for name, (rkey, at, pair, _) in found.items():
        if 'type 2' not in name:
            # One that is connected, as an access that is denied ends the connection.
            pair = Pair()
        for what in ('write', 'read', 'add'):
            must(pair.access(what, rkey, at, 8), DENIED, f'{name}: {what}')
            if 'type 2' in name:
                break
            pair = Pair()
        if 'window' not in name:
            must(Pair().access('write', rkey, 0, 8), e.IBV_WC_SUCCESS, f'{name}: the MR of the other device')
    must(Pair().access('write', mrs[0].rkey, mrs[0].buf, 8), e.IBV_WC_SUCCESS, 'the MR of the other device')


def write_until_denied(found, meanwhile=lambda: None):
    """Writes by all keys until all are denied, the first time before something else begins."""
    failed, writes = set(), 0
    while len(failed) < len(found):
        for name, (rkey, at, pair, _) in found.items():
            if name in failed:
                continue
            HOST.map[:64] = os.urandom(64)
            status = pair.access('write', rkey, at, 64)
            writes += 1
            if status != e.IBV_WC_SUCCESS:
                must(status, DENIED, name)
                failed.add(name)
                say(f'{name}: denied after {writes} writes')
        if writes == len(found):
            must(failed, set(), 'keys that are denied at first')
            meanwhile()
    # The pair of a window of type 2 has failed with it.
    return {name: target for name, target in found.items() if 'type 2' not in name}


def writer(a, b):
    """Writes by all keys while the device of the first memory goes."""
    found, mrs = targets(a, b)
    rest = write_until_denied(found, lambda: say('running'))
    denied(rest, mrs)
    say('all denied')
    sys.stdin.readline()
    denied(rest, mrs)


def client(a, b):
    """The same, but the client of the first memory invalidates it, and has it for others at once."""
    def contents():
        mr, pair = a.mr(), Pair()
        must(pair.access('read', mr.rkey, mr.buf, SIZE), e.IBV_WC_SUCCESS, 'read')
        mr.close()
        return HOST.map[:SIZE]
    found, mrs = targets(a, b)
    done = threading.Thread(target=fcntl.ioctl, args=(a.fd, INVALIDATE, 2))
    rest = write_until_denied(found, done.start)
    done.join()
    before = contents()
    denied(rest, mrs)
    must(contents(), before, 'the memory after the invalidation')


def children(a, b):
    """The MRs of the first BAR are deregistered before what refers to them; then others are made."""
    found, mrs = targets(a, b)
    for mr in mrs[1::2]:
        mr.close()
    denied(found, mrs)
    say('denied without the MRs')
    # Their keys are used again as the driver likes, but not for what is outside of the range.
    other = b.mr(512 * 1024, 100)
    before = bytes(b.map)
    for name, (rkey, at, _, _) in found.items():
        if 'type 2' not in name:
            must(Pair().access('write', rkey, at, 8), DENIED, f'{name}, after another MR')
    must(bytes(b.map), before, 'the other memory')
    other.close()


def reregistered(a, b):
    """An MR below a list is re-registered: the list reaches what it has now, or nothing, never what it had."""
    found, mrs = targets(a, b)
    rkey, at, _, _ = found['list']
    mr, before = mrs[1], bytes(a.map)
    mr.rereg(e.IBV_REREG_MR_CHANGE_TRANSLATION | e.IBV_REREG_MR_CHANGE_ACCESS, PAIRS.pd, a.addr + 256 * 1024, 4096, ALL)
    must(Pair().access('write', rkey, at, 8), DENIED, 'the list')
    must(bytes(a.map), before, 'the memory')
    pair = Pair()
    new = pair.list([SGE(mrs[0].buf, mrs[0].length, mrs[0].lkey), SGE(mr.buf, 4096, mr.lkey)])
    HOST.map[:8] = b'anew    '
    must(Pair().access('write', new.rkey, mrs[0].length, 8), e.IBV_WC_SUCCESS, 'a new list')
    must(a.map[256 * 1024:256 * 1024 + 8], b'anew    ', 'the new range')
    say('running')
    sys.stdin.readline()
    must(Pair().access('write', new.rkey, mrs[0].length, 8), DENIED, 'the new list')
    must(Pair().access('write', new.rkey, 0, 8), e.IBV_WC_SUCCESS, 'the MR of the other device')


def implicit(a, _):
    """An MR of all addresses reaches host memory and, as the driver pages it in, a BAR; so does one of a BAR."""
    every = MR(PAIRS.pd, 0, ALL | e.IBV_ACCESS_ON_DEMAND, implicit=True)
    there = Memory()
    HOST.map[:8192] = os.urandom(8192)
    must(Pair().access('write', every.rkey, there.addr + 100, 8192), e.IBV_WC_SUCCESS, 'host memory')
    must(there.map[100:8292], HOST.map[:8192], 'host memory')
    of_a_bar = [(mr, Pair()) for mr in (every, a.mr(0, 8192, ALL | e.IBV_ACCESS_ON_DEMAND))]
    for mr, pair in of_a_bar:
        HOST.map[:3] = os.urandom(3)
        must(pair.access('write', mr.rkey, a.addr + 4095, 3), e.IBV_WC_SUCCESS, 'a BAR')
        must(a.map[4095:4098], HOST.map[:3], 'a BAR')
    say('running')
    sys.stdin.readline()
    for mr, pair in of_a_bar:
        must(pair.access('write', mr.rkey, a.addr + 4095, 3), DENIED, 'a BAR that is gone')


def imported(_, b):
    """Of another process, or of the program before this one: its MR, by its descriptor and their handles."""
    at, handle = (int(word) for word in sys.argv[8:])
    mr, other, pair = MR(PAIRS.pd, handle=handle), b.mr(), Pair()
    HOST.map[:64] = IMPORTED
    must(pair.access('write', mr.rkey, at, 64), e.IBV_WC_SUCCESS, 'an imported MR')
    HOST.map[:64] = bytes(64)
    must(pair.access('read', mr.rkey, at, 64), e.IBV_WC_SUCCESS, 'an imported MR')
    must(HOST.map[:64], IMPORTED, 'the bytes of an imported MR')
    say('running')
    sys.stdin.readline()
    must(pair.access('write', mr.rkey, at, 64), DENIED, 'an imported MR')
    must(Pair().access('write', other.rkey, b.addr, 64), e.IBV_WC_SUCCESS, 'the MR of the other device')


def import_command(a):
    """An MR on the memory, and the command that imports it."""
    mr = a.mr(4096, 8192)
    os.set_inheritable(PAIRS.ctx.cmd_fd, True)
    more = (PAIRS.ctx.cmd_fd, PAIRS.pd.handle, mr.buf, mr.handle)
    return mr, [sys.executable, *sys.argv[:3], 'imported', *sys.argv[4:6], *map(str, more)]


def another_process(a, _):
    """Another process has the MR alone."""
    _, command = import_command(a)
    child = os.posix_spawn(command[0], command, os.environ)
    os.close(PAIRS.ctx.cmd_fd)
    while a.map[4096:4160] != IMPORTED:
        must(os.waitpid(child, os.WNOHANG), (0, 0), 'the other process')
    must(LIBC.munmap(a.addr, SIZE), 0, 'munmap')
    say('alone')
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def another_program(a, _):
    """Another program has the MR, in this process."""
    _, command = import_command(a)
    os.execv(command[0], command)


def forked(a, _):
    """A child has the mapping as well, but not where an old library has split it from forks."""
    def child():
        pid = os.fork()
        if not pid:
            if LIBC.mincore(a.addr + 4096, 4096, ctypes.create_string_buffer(1)):
                os._exit(errno.ENOMEM)
            a.map[4097] = a.map[4096] ^ 1
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    must(ctypes.CDLL('libibverbs.so.1').ibv_is_fork_initialized(), 2, 'forks copy what is pinned')
    mrs = [a.mr(4096, 8192)]
    must(child(), 0, 'a child')
    transfer_all(mrs[0], a)
    a.map.madvise(mmap.MADV_DONTFORK, 4096, 4096)
    must(child(), errno.ENOMEM, 'a child without the page')
    mrs.append(a.mr())
    for mr in mrs:
        transfer_all(mr, a)
    try:
        a.map.madvise(mmap.MADV_DOFORK, 4096, 4096)
        must(None, 'EINVAL', 'MADV_DOFORK')
    except OSError as error:
        must(error.errno, errno.EINVAL, 'MADV_DOFORK')


def transfer_all(mr, memory):
    """Random bytes to all of an MR, which are then in the memory."""
    HOST.map[:mr.length] = os.urandom(mr.length)
    must(Pair().access('write', mr.rkey, mr.buf, mr.length), e.IBV_WC_SUCCESS, 'write')
    at = mr.buf - memory.addr
    must(memory.map[at:at + mr.length], HOST.map[:mr.length], 'the bytes of an MR')


def stacked(a, b):
    """Three MRs at one address, each on its own memory, which has moved since; in any order."""
    def move(at, to):
        must(LIBC.mremap(at, SIZE, SIZE, 3, to), to, 'mremap')
    memories, seen, mrs = [a, b, Memory()], [Memory() for _ in range(3)], []
    for memory, there in zip(memories, seen):
        if memory is not a:
            move(memory.addr, a.addr)
        mrs.append(a.mr(0, 8192))
        move(a.addr, there.addr)
    for gone in (None, 1, 0):
        if gone is not None:
            mrs[gone].close()
            mrs[gone] = None
        for n, mr in enumerate(mrs):
            if mr:
                HOST.map[:8192] = os.urandom(8192)
                want = [memory.map[:8192] for memory in seen]
                want[n] = HOST.map[:8192]
                must(Pair().access('write', mr.rkey, a.addr, 8192), e.IBV_WC_SUCCESS, 'one of three')
                must([seen[i].map[:8192] == want[i] for i in range(3)], [True] * 3, f'the memories after MR {n}')


ACTIONS = {f.__name__: f for f in (lists, writer, client, children, reregistered, implicit, imported,
                                   another_process, another_program, forked, stacked)}
LIBC = library(None, mremap=(c_void_p, c_void_p, c_size_t, c_size_t, c_int, c_void_p),
               munmap=(c_int, c_void_p, c_size_t), mincore=(c_int, c_void_p, c_size_t, ctypes.c_char_p))

if sys.argv[3] == 'imported':
    PAIRS.ctx = Context(cmd_fd=int(sys.argv[6]))
    PAIRS.pd = PD(PAIRS.ctx, handle=int(sys.argv[7]))
else:
    PAIRS.ctx = Mlx5Context(Mlx5DVContextAttr(), name=sys.argv[1])
    PAIRS.pd = PD(PAIRS.ctx)
PAIRS.index = int(sys.argv[2])
HOST = Memory()
PAIRS.host = HOST.mr()
ACTIONS[sys.argv[3]](*map(Memory, sys.argv[4:6]))
say('ok')
sys.stdout.flush()
# The order in which Python would destroy the objects is not that of the verbs.
os._exit(0)
