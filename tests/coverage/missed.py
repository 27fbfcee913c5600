#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""missed.py LCOV TOP DIR...: for each source file below TOP/DIR the part of its lines that some test runs, and
the others. The KUnit tests at the end of a file do not count. LCOV: a trace of each module."""

import collections
import pathlib
import sys

top, counts = pathlib.Path(sys.argv[2]).resolve(), collections.defaultdict(collections.Counter)
with open(sys.argv[1], encoding="utf-8") as trace:
    for line in trace:
        key, _, value = line.strip().partition(":")
        if key == "SF":
            # A module names what it includes by "..".
            of_file = counts[pathlib.Path(value).resolve()]
        elif key == "DA":
            number, count = value.split(",")[:2]
            of_file[int(number)] += int(count)
total = run = 0
for path in sorted(path for name in sys.argv[3:] for path in (top / name).rglob("*.rs") if path in counts):
    before_tests = path.read_text().partition("kunit_tests(")[0].count("\n") + 1
    lines = {number: count for number, count in sorted(counts[path].items()) if number < before_tests}
    missed = [number for number, count in lines.items() if not count]
    total, run = total + len(lines), run + len(lines) - len(missed)
    if lines:
        print(f"{path.relative_to(top).as_posix():44} {100 - 100 * len(missed) / len(lines):5.1f} % of {len(lines):3}"
              + f"  not run: {missed}" * bool(missed))
print(f"all: {run} of {total} lines")
sys.exit(not total)
