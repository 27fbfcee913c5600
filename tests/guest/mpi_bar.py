# SPDX-License-Identifier: GPL-2.0
"""Messages of MPI between memory of two devices.

usage: mpirun -n 2 mpi_bar.py MEMORY0 MEMORY1 SIZE...

The process of each rank maps its MEMORY, the character device of a BAR. For each SIZE in bytes rank 0 sends a
message, and rank 1 sends the bytes that came, inverted. Then both reduce 64-bit integers by their sum, and a bitwise
exclusive or. All messages and operands are in MEMORY. Prints a line for each step, and ends with 1 after wrong bytes.
"""

import random
from ctypes import c_char, c_void_p, memmove, memset, string_at

from calls import *

# A message, and behind it the result of a reduction; both start inside a page.
LARGEST, MESSAGE = 8 << 20, 1000
RESULT = MESSAGE + LARGEST
MPI = ctypes.CDLL('libmpi.so.40', ctypes.RTLD_GLOBAL)


def of_mpi(name):
    return c_void_p(ctypes.addressof(c_char.in_dll(MPI, 'ompi_mpi_' + name)))


WORLD, BYTE, UINT64 = map(of_mpi, ('comm_world', 'byte', 'uint64_t'))


def mpi(name, *arguments):
    must(name, getattr(MPI, 'MPI_' + name)(*arguments), 0)


def send(size):
    mpi('Send', c_void_p(at), size, BYTE, 1 - rank, 1, WORLD)


def receive(want):
    """And nothing changes behind it. The status is MPI_Status: three numbers, and what is not public."""
    status, got = (u64 * 8)(), c_int()
    memset(at, 0, len(want))
    memset(at + len(want), 0x5a, 1)
    mpi('Recv', c_void_p(at), len(want), BYTE, 1 - rank, 1, WORLD, status)
    mpi('Get_count', status, BYTE, byref(got))
    must('the length', got.value, len(want))
    must(f'rank {rank}: a message of {len(want)} bytes', string_at(at, len(want) + 1) == want + b'\x5a')


def reduce(size, name, of):
    """Of integers of 63 bits, whose sums do not carry: both ranks know all of them."""
    low = int.from_bytes((b'\xff' * 7 + b'\x7f') * (size // 8), 'little')
    operands = [int.from_bytes(random.Random(size + n).randbytes(size), 'little') & low for n in range(2)]
    memmove(at, operands[rank].to_bytes(size, 'little'), size)
    memset(result, 0, size)
    mpi('Allreduce', c_void_p(at), c_void_p(result), size // 8, UINT64, of_mpi('op_' + name), WORLD)
    must(f'rank {rank}: {name} of {size} bytes', string_at(result, size) == of(*operands).to_bytes(size, 'little'))


mpi('Init', None, None)
number = c_int()
mpi('Comm_rank', WORLD, byref(number))
rank = number.value
at = mapped(os.open(sys.argv[1 + rank], os.O_RDWR), RESULT + LARGEST + PAGE) + MESSAGE
result = at + LARGEST
for size in map(int, sys.argv[3:]):
    message = random.Random(size).randbytes(size)
    inverted = message.translate(bytes(range(255, -1, -1)))
    if rank == 0:
        memmove(at, message, size)
        send(size)
        receive(inverted)
        print('exchanged', size, flush=True)
    else:
        receive(message)
        memmove(at, inverted, size)
        send(size)
    reduce(size, 'sum', int.__add__)
    reduce(size, 'bxor', int.__xor__)
    if rank == 0:
        print('reduced', size // 8, flush=True)
mpi('Finalize')
