# SPDX-License-Identifier: GPL-2.0
"""Queues of mlx5 whose buffers and doorbell records lie in device memory, and umems of DEVX.

"verbs" has two queue pairs that are connected to each other. One sends a message, the other one answers it by an
RDMA WRITE. The queues, the doorbell records and the messages are in MEMORY (programs/memory.h). libmlx5 takes the
memory of its queues by the allocators of a parent domain. "umem" prints ok, or the name of its errno.
"""

import argparse
import os
import signal
import sys
import time
from ctypes import byref, c_bool, c_char_p, c_int, c_size_t, c_void_p, memmove, memset, string_at

import pyverbs.enums as e
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.mr import MR
from pyverbs.pd import PD, ParentDomain, ParentDomainContext, ParentDomainInitAttr
from pyverbs.providers.mlx5.mlx5dv import Mlx5Context, Mlx5DVContextAttr, Mlx5UMEM
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

from calls import errorcode, library, must, structure
from connect import ALL, connect

LENGTH, DEPTH, MESSAGE = 65536, 64, 256
# MLX5DV_RES_TYPE_*
QUEUES, RECORD = (1 << 32 | 1, 1 << 32 | 5), 1 << 32 | 3
Memory = structure(addr=c_void_p, length=c_size_t, fd=c_int, dmabuf=c_int, start=c_size_t, control=c_int, gpu=c_bool,
                   changed=c_bool)
PROGRAMS = library('/mnt/programs/libtests.so', memory_map=(c_int, c_void_p, c_char_p, c_char_p, c_size_t))


class Area:
    """Memory that is handed out from its start on."""
    used = 0

    def take(self, size, alignment):
        """All zero, as a doorbell record of earlier queues must not be taken for that of new ones."""
        start = -(-self.used // alignment) * alignment
        if start + size > LENGTH:
            return 0
        self.used = start + size
        return memset(memory.addr + start, 0, size)


class Queue:
    """A queue pair and its CQ. The area is released as a whole."""

    def __init__(self):
        self.taken = []
        self.allocators = ParentDomainContext(pd, self.allocate, lambda *_: None)
        self.domain = ParentDomain(context, attr=ParentDomainInitAttr(pd=pd, pd_context=self.allocators))
        self.cq = CQEX(context, CqInitAttrEx(cqe=DEPTH, wc_flags=e.IBV_WC_STANDARD_FLAGS, parent_domain=self.domain,
                                             comp_mask=e.IBV_CQ_INIT_ATTR_MASK_PD))
        self.qp = QP(self.domain, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq,
                                             cap=QPCap(max_send_wr=DEPTH // 4, max_recv_wr=DEPTH // 4)))
        must('rings and doorbell records', [sum(t in types for t in self.taken) for types in (QUEUES, [RECORD])], [2, 2])

    def allocate(self, _pd, _context, size, alignment, kind):
        if kind not in (*QUEUES, RECORD):
            return e._IBV_ALLOCATOR_USE_DEFAULT
        self.taken.append(kind)
        return area.take(size, alignment)

    def sge(self):
        return SGE(self.message, MESSAGE, mr.lkey)

    def send(self, to=None):
        """SEND; RDMA WRITE into the message of another."""
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE if to else e.IBV_WR_SEND, num_sge=1, sg=[self.sge()])
        if to:
            wr.set_wr_rdma(mr.rkey, to.message)
        self.qp.post_send(wr)

    def complete(self):
        end = time.monotonic() + 10
        while self.cq.start_poll(PollCqAttr()):
            must('a completion', time.monotonic() < end)
        status = self.cq.status
        self.cq.end_poll()
        must('completion', status, e.IBV_WC_SUCCESS)


def verbs():
    global mr
    queues = near, far = Queue(), Queue()
    mr = MR(pd, LENGTH, ALL, address=memory.addr)
    connect([queue.qp for queue in queues], context, options.gid)
    for queue in queues:
        queue.message = area.take(MESSAGE, MESSAGE)
        must('room for a message', queue.message > 0)
    for _ in range(options.n):
        # The CPU compares the messages, of which no two are alike.
        one, two = os.urandom(MESSAGE), os.urandom(MESSAGE)
        far.qp.post_recv(RecvWR(sg=[far.sge()], num_sge=1))
        memmove(near.message, one, MESSAGE)
        near.send()
        far.complete()
        must('the message', string_at(far.message, MESSAGE), one)
        memmove(far.message, two, MESSAGE)
        far.send(near)
        far.complete()
        must('the answer', string_at(near.message, MESSAGE), two)
        # That of the message.
        near.complete()
    print(options.n, 'rounds,', area.used, 'bytes used', flush=True)
    keep()
    for queue in queues:
        for thing in queue.qp, queue.cq, queue.domain:
            thing.close()
    mr.close()


def umem():
    made = Mlx5UMEM(context, options.l, addr=memory.addr + options.o, access=e.IBV_ACCESS_LOCAL_WRITE)
    print('umem: ok', flush=True)
    keep()
    made.close()


def keep():
    while options.k:
        signal.pause()


parser = argparse.ArgumentParser()
parser.add_argument('device')
parser.add_argument('gid', type=int)
parser.add_argument('action', choices=('verbs', 'umem'))
parser.add_argument('-n', type=int, default=1, help='rounds')
parser.add_argument('-o', type=int, default=0, help='offset of the umem')
parser.add_argument('-l', type=int, default=4096, help='its length')
parser.add_argument('-k', action='store_true', help='then wait to be killed')
parser.add_argument('memory')
options = parser.parse_args()
area, memory = Area(), Memory()
context = Mlx5Context(Mlx5DVContextAttr(), options.device)
pd = PD(context)
must('map', PROGRAMS.memory_map(byref(memory), options.memory.encode(), None, LENGTH), 0)
try:
    globals()[options.action]()
except PyverbsRDMAError as error:
    print(f'{options.action}: error {errorcode[error.error_code]}', flush=True)
    os._exit(1)
sys.stdout.flush()
# The order in which Python would destroy the objects is not that of the verbs.
os._exit(0)
