#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""words.py WORDS ALLOWED FILE...: checks that no pattern in WORDS is in the files. WORDS has a
regular expression, a tab, and what to write instead, a line. A pattern without capital
letters matches either case. ALLOWED has exceptions: a file, a tab, the exact line without
the space around it, a tab, the reason. An exception that is not needed is an error too."""

import re
import sys

words, allowed, files = sys.argv[1], sys.argv[2], sys.argv[3:]


def lines(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in file]


patterns, exceptions, errors, needed = [], {}, [], set()
for number, line in enumerate(lines(words), 1):
    if line and not line.startswith("#"):
        pattern, tab, instead = line.partition("\t")
        if not tab or not instead:
            errors.append(f"{words}:{number}: no tab, or nothing to write instead")
        flags = 0 if re.search(r"(?<!\\)[A-Z]", pattern) else re.I
        patterns.append((re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", flags), instead.strip()))
for number, line in enumerate(lines(allowed), 1):
    if line and not line.startswith("#"):
        parts = line.split("\t")
        if len(parts) < 3 or not parts[-1].strip():
            errors.append(f"{allowed}:{number}: file, line and reason, with tabs between")
        else:
            exceptions[parts[0], "\t".join(parts[1:-1]).strip()] = number
for name in files:
    for number, line in enumerate(lines(name), 1):
        for pattern, instead in patterns:
            found = pattern.search(line)
            if not found:
                continue
            if (name, line.strip()) in exceptions:
                needed.add((name, line.strip()))
            else:
                errors.append(f"{name}:{number}: '{found.group()}': {instead}: {line.strip()}")
for exception in exceptions.keys() - needed:
    errors.append(f"{allowed}:{exceptions[exception]}: not needed")
print("\n".join(errors))
sys.exit(bool(errors) or not patterns or not files)
