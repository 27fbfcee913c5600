# SPDX-License-Identifier: GPL-2.0
"""Run modules of rdma-core's own tests and print the outcome of each test.

usage: run_pyverbs.py DIR --dev DEVICE MODULE...

DIR contains tests/. Standard output has one line per test: its id, and "passed",
"skipped" or "failed". Output of the tests and tracebacks go to standard error. A failed
test runs again, up to TRIES times in all, and the last outcome counts: the tests wait a
few seconds for completions, which is too short if two emulated machines share a processor.

Each module runs in a separate process, so that neither a crash nor open resources
affect the next module. The random seeds are the same in each run.
"""

import importlib
import os
import random
import signal
import sys
import types
import unittest

# Seconds for one test; the longest wait for completions in the tests is 10. A test that hangs
# kills its process.
LIMIT = 60
TRIES = 3
# Tests whose outcome is a race of their own: this one shrinks the queue and assumes that all completions are in
# it by then (a software adapter may lose the last ones), the other one passes if its processes need 0.6 s.
RACES = ('tests.test_cq.CQTest.test_resize_cq',
         'tests.test_rdmacm.CMTestCase.test_rdmacm_async_ex_leave_multicast_traffic')


def tests_of(suite):
    for test in suite:
        yield from tests_of(test) if isinstance(test, unittest.TestSuite) else (test,)


def outcome(test):
    if test.id() in RACES:
        return 'skipped'
    for _ in range(TRIES):
        result = unittest.TestResult()
        random.seed(test.id())
        signal.alarm(LIMIT)
        # An instance of its own, whose verbs objects end with it.
        type(test)(test._testMethodName).run(result)
        signal.alarm(0)
        for _, text in result.errors + result.failures + result.skipped:
            print(f'{test.id()}: {text}', file=sys.stderr)
        if result.wasSuccessful():
            return 'skipped' if result.skipped else 'passed'
    return 'failed'


def run(module, out):
    """Run a module in a child; a crash of the child counts as a failure."""
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
            print(test.id(), outcome(test), file=out, flush=True)
        sys.stderr.flush()
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        print(module.__name__, 'failed', file=out, flush=True)


def main():
    directory = sys.argv.pop(1)
    sys.dont_write_bytecode = True
    sys.path[:0] = [directory, f'{directory}/tests']
    # Without the __init__ of the package, which loads the tests of all vendors.
    package = sys.modules['tests'] = types.ModuleType('tests')
    package.__path__ = [f'{directory}/tests']
    from args_parser import parser
    parser.parse_args()

    # Output of the tests must not mix with the results.
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    for module in [importlib.import_module(f'tests.{name}') for name in sys.argv[1:]]:
        run(module, out)


main()
