# SPDX-License-Identifier: GPL-2.0
"""users.py DEVICE BAR PROCESSES USERS: so many processes of so many users, each of which maps, exports, names,
registers and releases ranges of the BAR until it gets SIGTERM. Operations may fail. Prints "running" when all
are, and forwards SIGTERM; then prints how many operations succeeded and failed. A process that ends in another
way is a failure.
"""

import contextlib
import signal
import time

from verbs import *

LENGTH, FIRST_UID = 256 << 10, 20001
stopped = False


def stop(*_):
    global stopped
    stopped = True


def use(counts):
    """Each use of "did" counts an operation, which fails by an error."""
    @contextlib.contextmanager
    def did():
        try:
            yield
            counts[0] += 1
        except OSError:
            counts[1] += 1

    def register(address):
        with did():
            mr = VERBS.ibv_reg_mr(rdma.pd, address, LENGTH, ACCESS_ALL)
            if not mr:
                raise OSError
            VERBS.ibv_dereg_mr(mr)

    def call(cmd, arg):
        if got := ioctl(control, cmd, byref(arg)):
            raise OSError(got, 'a name')

    rdma, control = VERBS.rdma_open(sys.argv[1].encode()), os.open('/dev/ib_peer_mem', os.O_RDWR)
    name = mapped(-1, LENGTH, 0, MAP_PRIVATE | MAP_ANONYMOUS)
    os.write(ready[1], b'1')
    while not stopped:
        file = at = arg = None
        with did():
            file = os.open(sys.argv[2], os.O_RDWR)
            at = mapped(file, LENGTH)
        if at:
            register(at)
            # Other addresses name this memory.
            with did():
                arg = NameArg(1, 0, name, LENGTH, 0, export(at, LENGTH))
            if arg:
                with did():
                    call(NAME, arg)
                    register(name)
                    call(UNNAME, arg)
                os.close(arg.fd)
            LIBC.munmap(at, LENGTH)
        else:
            time.sleep(0.01)
        if file is not None:
            os.close(file)


processes, users = int(sys.argv[3]), int(sys.argv[4])
# A group of its own, for SIGTERM.
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, stop)
ready, failed = os.pipe(), 0
counts = [(u64 * 2).from_address(mapped(-1, PAGE, RW, MAP_SHARED | MAP_ANONYMOUS)) for _ in range(processes)]
for number in range(processes):
    if not os.fork():
        os.setuid(FIRST_UID + number % users)
        use(counts[number])
        os._exit(0)
os.close(ready[1])
for number in range(processes):
    must(f'process {number}', os.read(ready[0], 1), b'1')
print('running', flush=True)
while not stopped:
    signal.pause()
os.kill(0, signal.SIGTERM)
for _ in range(processes):
    failed += os.wait()[1] != 0
good, bad = (sum(count[i] for count in counts) for i in range(2))
print(f'{good} operations succeeded, {bad} failed, {failed} processes ended badly')
sys.exit(failed != 0)
