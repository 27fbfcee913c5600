# SPDX-License-Identifier: GPL-2.0
"""libiopm without the modules: LIBRARY, with the preloaded HOOK, which has DM_INFO and DM_FREE of any file, and
recorder.so of tests/gpu, which has the names of addresses.

A file in memory stands for an allocation: copies, their bounds, and the end of the file; the way it frees;
arguments of programs that err.
"""

import ctypes
import os
import resource
import signal
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from errno import EBADF, EBUSY, EEXIST, EFAULT, EINVAL, EIO, ENODEV, ENOENT, ENOSYS

LENGTH = 10000
IOPM = ctypes.CDLL(sys.argv[1], use_errno=True)
HOOK = ctypes.CDLL(sys.argv[2])
FREES, FREE_FAILS = c_int.in_dll(HOOK, 'frees'), c_int.in_dll(HOOK, 'free_fails')
LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = c_void_p
LIBC.mmap.argtypes = (c_void_p, c_size_t, c_int, c_int, c_int, c_uint64)
for name, result, *arguments in (
        ('import_dm', c_void_p, c_void_p, c_uint), ('unimport_dm', None, c_void_p), ('free_dm', c_int, c_void_p),
        ('memcpy_to_dm', c_int, c_void_p, c_uint64, c_void_p, c_size_t), ('open_path', c_void_p, c_void_p),
        ('memcpy_from_dm', c_int, c_void_p, c_void_p, c_uint64, c_size_t),
        ('reg_dm_mr', c_void_p, c_void_p, c_void_p, c_uint64, c_size_t, c_uint),
        ('register_dmabuf', c_int, c_void_p, c_size_t, c_int, c_uint64), ('unregister_dmabuf', c_int, c_void_p, c_size_t)):
    function = getattr(IOPM, 'iopm_' + name)
    function.restype, function.argtypes = result, arguments
    globals()[name] = function


def must(what, got, want):
    if got != want:
        sys.exit(f'{what}: {got}, instead of {want}')


def fails(what, result, errno):
    must(what, (result, ctypes.get_errno()), (None, errno))


def mapped_at(text):
    """Returns the beginning of the line of /proc/self/maps that has the text."""
    with open('/proc/self/maps', encoding='utf-8') as maps:
        return next((int(line.split('-')[0], 16) for line in maps if text in line), None)


def as_first_process(then):
    """Calls it in a child that is process 1 of a namespace."""
    os.unshare(os.CLONE_NEWPID)
    child = os.fork()
    if not child:
        must('its number', os.getpid(), 1)
        then()
        os._exit(0)
    must('its end', os.waitpid(child, 0)[1], 0)


def parent():
    """A child has memory of its own where its parent has the library's mapping."""
    dm, at = import_dm(None, fd), mapped_at('/memfd:memory')

    def child():
        # Read, write; private, anonymous, MAP_FIXED_NOREPLACE.
        must('the address is free', LIBC.mmap(at, 4096, 3, 0x100022, -1, 0), at)
        ctypes.memset(at, 1, 1)
        unimport_dm(dm)
        must("the child's memory", ctypes.string_at(at, 1), b'\1')

    as_first_process(child)


def wrong_arguments():
    """What is no handle, no address and no library has an errno, as every failure."""
    dm, byte, attr = import_dm(None, fd), ctypes.create_string_buffer(1), ctypes.create_string_buffer(48)
    # struct iopm_dm, whose handle is its last member.
    no_handle = (c_uint * 4)(0, 0, 0, 2**32 - 1)
    must('no handle', IOPM._iopm_query_dm(byref(no_handle), attr, c_size_t(48)), EBADF)
    fails('no handle', import_dm(None, 2**32 - 1), EBADF)
    fails('no path', open_path(None), EFAULT)
    must('no memory', memcpy_to_dm(dm, 0, None, 8), EFAULT)
    must('no memory', memcpy_from_dm(None, dm, 0, 8), EFAULT)
    must('no bytes', memcpy_from_dm(None, dm, 0, 0), 0)
    must('a byte', memcpy_from_dm(byte, dm, 0, 1), 0)
    # A second libibverbs would not know the protection domain of the first.
    fails('no libibverbs', reg_dm_mr(byte, dm, 0, 4096, 1 << 5), ENOSYS)
    must('none is loaded', mapped_at('libibverbs'), None)
    # The mapping ends without a free descriptor as well.
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    unimport_dm(dm)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    must('unmapped', mapped_at('/memfd:memory'), None)


def copies():
    dm, bytes_in = import_dm(None, fd), bytes((i * 7 + i // 251) % 256 for i in range(LENGTH))
    out = ctypes.create_string_buffer(LENGTH)
    must('write', memcpy_to_dm(dm, 0, bytes_in, LENGTH), 0)
    must('read', memcpy_from_dm(out, dm, 0, LENGTH), 0)
    must('the bytes', out.raw, bytes_in)
    must('write', memcpy_to_dm(dm, 1000, bytes_in, 5000), 0)
    must('read', memcpy_from_dm(out, dm, 1000, 5000), 0)
    must('at an offset, and not beyond', out.raw, bytes_in)

    # The bounds: the file is longer.
    must('nothing, at the end', memcpy_to_dm(dm, LENGTH, bytes_in, 0), 0)
    must('past the end', memcpy_to_dm(dm, LENGTH - 9, bytes_in, 10), EINVAL)
    must('wraps', memcpy_from_dm(out, dm, 2**64 - 1, 2), EINVAL)
    must('all addresses', memcpy_from_dm(out, dm, 1, 2**64 - 1), EINVAL)
    must('no pointer', memcpy_to_dm(dm, 0, 8, 8), EFAULT)
    # A file that has no more bytes must not be read for ever.
    os.ftruncate(fd, 100)
    must('no bytes', memcpy_from_dm(out, dm, 0, 101), EIO)

    # A failed free changes nothing; a removed device has freed the memory.
    FREE_FAILS.value = EBUSY
    must('in use', free_dm(dm), EBUSY)
    must('still there', memcpy_from_dm(out, dm, 0, 100), 0)
    FREE_FAILS.value = ENODEV
    must('gone', free_dm(dm), 0)
    FREE_FAILS.value = 0
    must('free', free_dm(import_dm(None, fd)), 0)
    must('calls of DM_FREE', FREES.value, 3)
    unimport_dm(import_dm(None, fd))
    must('no call of DM_FREE', FREES.value, 3)


def names():
    must('register', register_dmabuf(0x7000, 8192, fd, 4096), 0)
    must('another one', register_dmabuf(0x8000, 8192, fd, 0), EEXIST)
    must('unregister', unregister_dmabuf(0x7000, 8192), 0)
    must('unregister', unregister_dmabuf(0x7000, 8192), ENOENT)
    must('no descriptor', register_dmabuf(0x7000, 8192, -1, 0), EBADF)
    with open(os.environ['GPU_RECORD'], encoding='ascii') as record:
        must('the calls', record.read(),
             f'name 0x7000 8192 {os.fstat(fd).st_ino} 4096\nunname 0x7000 8192\n')


fd = os.memfd_create('memory')
os.ftruncate(fd, 3 * 4096)
# A copy that does not end is a failure.
signal.alarm(60)
names()
wrong_arguments()
as_first_process(parent)
copies()
