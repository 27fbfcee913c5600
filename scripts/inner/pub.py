#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""pub.py TOP: each pub item of TOP/rust is named by other code somewhere in the tree. Each
crate includes a part of rust/, so rustc's own lint for dead code cannot tell."""

import collections
import pathlib
import sys

from rust_source import tokens

top = pathlib.Path(sys.argv[1])
KINDS = {"fn", "struct", "enum", "union", "trait", "const", "static", "type", "mod"}
SKIPPED = {"unsafe", "async", "extern", "mut", '"'}
named, items = collections.Counter(), []
for path in sorted(top.rglob("*.rs")):
    words = list(tokens(path.read_text()))
    named.update(text for text, _ in words)
    if top / "rust" not in path.parents:
        continue
    for at, (text, line) in enumerate(words):
        rest = words[at + 1:at + 8]
        while rest and rest[0][0] in SKIPPED or len(rest) > 1 and rest[0][0] == "const" and rest[1][0] in ("fn", "unsafe"):
            rest = rest[1:]
        if text == "pub" and len(rest) > 1 and rest[0][0] in KINDS and rest[1][0] != "_":
            items.append((path, line, rest[1][0]))
defined = collections.Counter(name for _, _, name in items)
unused = [item for item in items if named[item[2]] <= defined[item[2]]]
for path, line, name in unused:
    print(f"{path}:{line}: pub item {name}: named nowhere else")
sys.exit(bool(unused) or not items)
