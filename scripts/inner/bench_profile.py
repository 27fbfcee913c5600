#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""bench_profile.py DEVICE DIR runs inside the rootfs, for PROFILE=1 scripts/bench: prints
the functions with the most instructions of their own, of the traces graph-* in DIR.

Tracing costs instructions itself, for each function. What a call costs is estimated from a
traced and an untraced registration, and taken off.
"""

import collections
import glob
import os
import re
import sys

TOP = 30
# "  0)   1.234 us    |  leaf();", "  0)               |  name() {", "  0)   9.876 us    |  } /* name */"
LINE = re.compile(r"^\s*\d+\)\s+(?:[!+#*@$]\s*)?(?:([\d.]+) us)?\s*\|\s+(.*)$")
NAME = re.compile(r"^([\w.]+)(?: \[(\w+)\])?\(\)(;| \{)")


def parse(name):
    """The calls of a trace: function, own time and number of calls within, in nanoseconds,
    which are instructions."""
    calls, stack = [], []
    with open(name, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = LINE.match(line)
            if not match:
                continue
            time, rest = match.groups()
            spent = round(float(time) * 1000) if time else 0
            call = NAME.match(rest)
            if call:
                function = call.group(1) + (f" [{call.group(2)}]" if call.group(2) else "")
            if call and call.group(3) == " {":
                stack.append([function, 0, 0])
                continue
            if call:
                done = [function, spent, 0]
            elif rest.startswith("}") and stack:
                done = stack.pop()
                done[1] = spent - done[1]
            else:
                continue
            calls.append(done)
            if stack:
                stack[-1][1] += spent
                stack[-1][2] += 1
    return calls


def main(device, directory):
    for name in sorted(glob.glob(os.path.join(directory, "graph-*"))):
        what = os.path.basename(name)[len("graph-"):]
        calls = parse(name)
        with open(os.path.join(directory, "untraced-" + what), encoding="ascii") as file:
            plain = sum(int(line.split()[4]) for line in file)
        # Tracing costs a part inside the function, at most what the shortest one took, and a
        # part outside.
        leaf = min(own for _, own, inner in calls if not inner)
        outside = max(0, (sum(own for _, own, _ in calls) - plain) / len(calls) - leaf)
        own, times = collections.Counter(), collections.Counter()
        for function, spent, inner in calls:
            own[function] += spent - leaf - outside * inner
            times[function] += 1
        print(f"{device} {what}: {plain:,} instructions, {len(calls):,} traced calls; {leaf} and "
              f"{outside:.0f} for tracing each are taken off")
        for function, cost in own.most_common(TOP):
            print(f"  {cost:9,.0f} {times[function]:6,} x  {function}")
        print()


if __name__ == "__main__":
    main(*sys.argv[1:])
