# SPDX-License-Identifier: GPL-2.0
"""A BPF iterator over the dma-bufs of the machine that stops in the middle.

usage: dmabuf_iter.py SIZE

Prints the sizes of all dma-bufs. Then stops at one of that size, so that the kernel holds a reference to it, prints
"holding", and ends at the end of its input. Says so if the kernel has no such iterator, and exits with 3 if no dma-buf
but the first has that size: the iterator holds the one after the last that it has shown.
"""

import struct

from calls import *

SYS_BPF = {'x86_64': 321, 'aarch64': 280}[os.uname().machine]
PROG_LOAD, LINK_CREATE, ITER_CREATE, TRACING, TRACE_ITER, SEQ_WRITE = 5, 28, 33, 26, 28, 127
LOAD, STORE, IF_EQUAL, CALL, EXIT, MOV, MOV_IMM, ADD_IMM = 0x79, 0x7b, 0x15, 0x85, 0x95, 0xbf, 0xb7, 0x07
# struct bpf_iter__dmabuf { meta, dmabuf }, bpf_iter_meta { seq, .. }, dma_buf { size, .. }: the operation, the
# registers to and from, offset, number. Each dma-buf that it shows is 8 bytes: its size.
PROGRAM = ((LOAD, 6, 1, 8, 0), (IF_EQUAL, 6, 0, 8, 0), (LOAD, 1, 1, 0, 0), (LOAD, 1, 1, 0, 0), (LOAD, 7, 6, 0, 0),
           (STORE, 10, 7, -8, 0), (MOV, 2, 10, 0, 0), (ADD_IMM, 2, 0, 0, -8), (MOV_IMM, 3, 0, 0, 8),
           (CALL, 0, 0, 0, SEQ_WRITE), (MOV_IMM, 0, 0, 0, 0), (EXIT, 0, 0, 0, 0))
# The kinds of types in the kernel's description of itself: bytes after each, and after each of its members.
BTF_REST, BTF_MEMBERS, BTF_FUNC = {1: 4, 3: 12, 14: 4, 17: 4}, {4: 12, 5: 12, 6: 8, 13: 8, 15: 12, 19: 12}, 12


def bpf(command, attr):
    fd = LIBC.syscall(SYS_BPF, command, attr, len(attr))
    must(f'bpf {command}: {LOG.value}', fd >= 0)
    return fd


def btf_function(name):
    """The number of a function; 0: there is none."""
    try:
        with open('/sys/kernel/btf/vmlinux', 'rb') as f:
            data = f.read()
    except FileNotFoundError:
        return 0
    head, at, size, names = struct.unpack_from('<4xIIII', data)
    wanted = data.find(b'\0' + name + b'\0', head + names) + 1 - head - names
    at, end, number = head + at, head + at + size, 1
    while at < end:
        name, info = struct.unpack_from('<II', data, at)
        kind = info >> 24 & 31
        if kind == BTF_FUNC and name == wanted:
            return number
        at += 12 + BTF_REST.get(kind, 0) + BTF_MEMBERS.get(kind, 0) * (info & 0xffff)
        number += 1
    return 0


def iterator():
    insns, license, log = map(ctypes.addressof, (INSNS, LICENSE, LOG))
    load = struct.pack('<2I2Q2IQ24x2I36xI', TRACING, len(PROGRAM), insns, license, 1, len(LOG), log, 0, TRACE_ITER,
                       FUNCTION)
    link = bpf(LINK_CREATE, struct.pack('<3I', bpf(PROG_LOAD, load), 0, TRACE_ITER))
    return bpf(ITER_CREATE, struct.pack('<2I', link, 0))


FUNCTION = btf_function(b'bpf_iter_dmabuf')
if not FUNCTION:
    sys.exit('no iterator over dma-bufs')
INSNS = ctypes.create_string_buffer(b''.join(struct.pack('<BBhi', code, source << 4 | to, offset, number)
                                             for code, to, source, offset, number in PROGRAM))
LICENSE, LOG = ctypes.create_string_buffer(b'GPL'), ctypes.create_string_buffer(16 << 10)
shown, wanted = [], int(sys.argv[1], 0)
fd = iterator()
while size := os.read(fd, 8):
    shown.append(int.from_bytes(size, 'little'))
print(*map(hex, shown))
os.close(fd)
if wanted not in shown[1:]:
    sys.exit(3)
fd = iterator()
for _ in range(len(shown) - 1 - shown[::-1].index(wanted)):
    os.read(fd, 8)
print('holding', flush=True)
sys.stdin.read()
