#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""pub.py TOP: each pub item of TOP/rust is named by other code somewhere in the tree. Each
crate includes a part of rust/, so rustc's own lint for dead code cannot tell."""

import collections
import pathlib
import re
import sys

from rust_source import code

top = pathlib.Path(sys.argv[1])
ITEM = re.compile(r"\bpub (?:(?:unsafe|async|extern|const(?= fn| unsafe)) )*"
                  r"(?:fn|struct|enum|union|trait|const|static(?: mut)?|type|mod) (?!_\b)(\w+)")
named, items = collections.Counter(), {}
for path in sorted(top.rglob("*.rs")):
    text = code(path)
    named.update(re.findall(r"\w+", text))
    if top / "rust" in path.parents:
        items[path] = ITEM.findall(text)
defined = collections.Counter(name for names in items.values() for name in names)
unused = [f"{path}: pub item {name}: named nowhere else"
          for path, names in items.items() for name in names if named[name] <= defined[name]]
print("\n".join(unused))
sys.exit(bool(unused) or not defined)
