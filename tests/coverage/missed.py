#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""missed.py LCOV TOP DIR...: for each source file below TOP/DIR, what part of its lines some
test runs, and the lines that no test runs.

LCOV is a trace file of llvm-cov. A file without code is left out; one that no module has been built
from is named at the end. The lines of KUnit tests at the end of a file do not count.
"""

import os
import sys


def lines_of(path):
    """Return the counts by line, by file."""
    files, counts = {}, None
    with open(path, encoding="utf-8") as trace:
        for line in trace:
            key, _, value = line.strip().partition(":")
            if key == "SF":
                counts = files.setdefault(os.path.realpath(value), {})
            elif key == "DA":
                number, count = value.split(",")[:2]
                counts[int(number)] = counts.get(int(number), 0) + int(count)
    return files


def tests_from(path):
    """Return the line from which on the file has its KUnit tests."""
    with open(path, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            if "kunit_tests(" in line:
                return number
    return sys.maxsize


def ranges(numbers, known):
    """Return the numbers as text; two are in one range if no other line with code is between them."""
    parts = []
    for number in numbers:
        if parts and not any(parts[-1][1] < other < number for other in known):
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main(trace, top, *directories):
    files, without, total, missed_total = lines_of(trace), [], 0, 0
    for directory in directories:
        all_lines, all_missed, rows = 0, 0, []
        for where, _, names in sorted(os.walk(os.path.join(top, directory))):
            for name in sorted(names):
                if not name.endswith(".rs"):
                    continue
                path = os.path.join(where, name)
                shown = os.path.relpath(path, top)
                counts = files.get(os.path.realpath(path))
                if counts is None:
                    without.append(shown)
                    continue
                end = tests_from(path)
                known = sorted(number for number in counts if number < end)
                missed = [number for number in known if not counts[number]]
                all_lines, all_missed = all_lines + len(known), all_missed + len(missed)
                if known:
                    part = 100 * (len(known) - len(missed)) // len(known)
                    rows.append((shown, part, len(known), ranges(missed, known)))
        print(f"\n{directory}: {all_lines - all_missed} of {all_lines} lines"
              + (f", {100 * (all_lines - all_missed) / all_lines:.1f} %" if all_lines else ""))
        for shown, part, lines, missed in rows:
            print(f"  {shown:42} {part:3} % of {lines:4}" + (f"  not run: {missed}" if missed else ""))
        total, missed_total = total + all_lines, missed_total + all_missed
    if without:
        print("\nwithout code that a module has:", ", ".join(without))
    print(f"\nall: {total - missed_total} of {total} lines")
    if not total:
        sys.exit("no lines: no module was measured")


if __name__ == "__main__":
    main(*sys.argv[1:])
