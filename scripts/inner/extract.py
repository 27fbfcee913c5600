#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""extract.py TOP LIST OUT: for each line "extract: FILE ITEM..." of LIST, writes these items of
TOP/FILE, with the comments and attributes above them, to OUT/FILE with _ for /. The source is
formatted by rustfmt: an item begins and ends in the first column. Fails if one is not there."""

import pathlib
import re
import sys

top, names, out = (pathlib.Path(argument) for argument in sys.argv[1:])
ITEM = r"(?:pub(?:\([a-z]+\))? )?(?:(?:unsafe|const|async) )*(?:struct|enum|fn|mod|trait|const|static|type|impl\b.*?)\s+{}\b"


def items(lines, name):
    """The items of that name, and the impls of a type of that name."""
    for at, line in enumerate(lines):
        if not re.match(ITEM.format(name), line):
            continue
        first = last = at
        while first and re.match(r"//|#\[", lines[first - 1]):
            first -= 1
        # One line, or up to the closing brace (or the semicolon) in the first column.
        while not (lines[last].endswith((";", "}")) and re.match(r"\S", lines[last])):
            last += 1
        yield from lines[first:last + 1]
        yield ""


for line in names.read_text().splitlines():
    found = re.search(r"extract: (\S+\.rs) (.+)", line)
    if not found:
        continue
    source = (top / found.group(1)).read_text().splitlines()
    text = []
    for name in found.group(2).split():
        item = list(items(source, name))
        if not item:
            sys.exit(f"{found.group(1)}: no item {name}")
        text += item
    (out / found.group(1).replace("/", "_")).write_text("\n".join(text) + "\n")
