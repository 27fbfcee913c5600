# SPDX-License-Identifier: GPL-2.0
"""Run modules of rdma-core's own tests and print the outcome of each test.

usage: run_pyverbs.py DIR --dev DEVICE MODULE...

DIR contains tests/. Standard output has one line per test: its id, "passed",
"skipped" or "failed", and the kind of a failure. Output of the tests and tracebacks go
to standard error. A failed test runs again, up to TRIES times in all, and the last
outcome counts: the tests wait a few seconds for completions, which is too short if two
emulated machines share a processor.

Each module runs in a separate process, so that neither a crash nor open resources
affect the next module. The random seeds are the same in each run.
"""

import importlib
import os
import random
import signal
import sys
import time
import types
import unittest

# Seconds for one test; the longest wait for completions in the tests is 10.
LIMIT = 60
TRIES = 3
# Tests whose outcome depends on a race within the test, with the reason.
RACES = {
    'test_cq.CQTest.test_resize_cq':
        'shrinks the queue and assumes that all completions are in it by then; otherwise '
        'a software adapter resizes first and loses the last completions',
}


class Result(unittest.TestResult):
    """Prints the outcome of each test: the worst result of its last run."""

    def __init__(self, out):
        super().__init__()
        self.out = out
        self.outcome = None
        self.tries = 0

    def startTest(self, test):
        super().startTest(test)
        random.seed(test.id())
        self.outcome = 'passed'
        self.started = time.monotonic()
        # A test that hangs kills its process, which run() reports.
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)
        print(f'{time.monotonic() - self.started:6.2f} s  {test.id()}', file=sys.stderr)
        outcome, self.outcome = self.outcome, None
        self.tries += 1
        if outcome.startswith('failed') and self.tries < TRIES:
            # Here, before the class is torn down.
            type(test)(test._testMethodName).run(self)
            return
        self.tries = 0
        self.say(test, outcome)

    def say(self, test, outcome):
        print(test.id(), outcome, file=self.out, flush=True)

    def ended(self, test, outcome):
        if self.outcome is None:
            # The setup of a class or a module failed.
            self.say(test, outcome)
        elif outcome != 'skipped' or self.outcome == 'passed':
            self.outcome = outcome

    def failed(self, test, err):
        self.ended(test, f'failed: {err[0].__name__}')
        print(f'{test.id()}:\n{self._exc_info_to_string(err, test)}', file=sys.stderr)

    def addError(self, test, err):
        self.failed(test, err)

    def addFailure(self, test, err):
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(test, err)

    def addSkip(self, test, reason):
        self.ended(test, 'skipped')
        print(f'{test.id()}: skipped: {reason}', file=sys.stderr)


def run(module, out):
    """Run a module in a child; a crash of the child counts as a failure."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        suite.run(Result(out))
        out.flush()
        sys.stderr.flush()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        print(module.__name__, f'failed: status {status}', file=out, flush=True)


def leave_out_races(modules):
    for module in modules:
        for name, reason in RACES.items():
            where, case, test = name.split('.')
            if module.__name__ == f'tests.{where}':
                cls = getattr(module, case)
                setattr(cls, test, unittest.skip(reason)(getattr(cls, test)))


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
    modules = [importlib.import_module(f'tests.{name}') for name in sys.argv[1:]]
    leave_out_races(modules)
    for module in modules:
        run(module, out)


main()
