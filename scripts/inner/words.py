#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""words.py WORDS FILE...: checks that no pattern in WORDS is in the files. WORDS has a
regular expression, a tab, and what to write instead, a line. A pattern without capital
letters matches either case."""

import re
import sys

words, files = sys.argv[1], sys.argv[2:]


def lines(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n") for line in file]


patterns, errors = [], []
for number, line in enumerate(lines(words), 1):
    if line and not line.startswith("#"):
        pattern, tab, instead = line.partition("\t")
        if not tab or not instead:
            errors.append(f"{words}:{number}: no tab, or nothing to write instead")
        flags = 0 if re.search(r"(?<!\\)[A-Z]", pattern) else re.I
        patterns.append((re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", flags), instead.strip()))
for name in files:
    for number, line in enumerate(lines(name), 1):
        for pattern, instead in patterns:
            found = pattern.search(line)
            if found:
                errors.append(f"{name}:{number}: '{found.group()}': {instead}: {line.strip()}")
print("\n".join(errors))
sys.exit(bool(errors) or not patterns or not files)
