#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""layers.py SRC LAYERS: no module in SRC uses one of a layer above its own, or another one
of its own layer. LAYERS has a layer a line, the top one first: the modules of SRC, by their
names in the crate root, which is "main". Prints each violation as "file:line: ..."."""

import pathlib
import re
import sys

from rust_source import tokens

src, layers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
layer_of = {}
for number, line in enumerate(layers.read_text().splitlines()):
    for name in line.partition("#")[0].split():
        layer_of[name] = number
root = (src / "main.rs").read_text()
# What "use crate::NAME" may name besides modules and items of the root: exported macros.
macros = {name for folder in (src, src.parent / "rust") for path in folder.rglob("*.rs")
          for name in re.findall(r"macro_rules! (\w+)", path.read_text())}
modules = {path.stem for path in src.glob("*.rs")} | {path.name for path in src.iterdir() if path.is_dir()}
# Modules of the root that are no part of SRC have no layer: rust/ knows nothing of SRC.
foreign = set(re.findall(r'#\[path = "[^"]*"\]\s*(?:#\[.*\]\s*)?(?:pub(?:\([a-z]+\))? )?mod (\w+);', root))
for name in sorted(foreign):
    for names in re.findall(rf"use {name}::(?:\{{([^}}]*)\}}|(\w+))", root):
        foreign |= set(re.findall(r"\w+", re.sub(r"//.*", "", "".join(names))))
errors = []


def module_path(path):
    parts = list(path.relative_to(src).with_suffix("").parts)
    if parts[-1] == "mod":
        parts.pop()
    return [] if parts == ["main"] else parts


def used(stream):
    """Yields (module path, segments, line) of each path that begins with crate, self or super."""
    depth, inline, pending = 0, [], None
    stream = list(stream)
    at = 0
    while at < len(stream):
        text, line = stream[at]
        if text == "mod" and at + 2 < len(stream) and stream[at + 2][0] == "{":
            pending = stream[at + 1][0]
        elif text == "{":
            depth += 1
            if pending:
                inline.append((pending, depth))
                pending = None
        elif text == "}":
            if inline and inline[-1][1] == depth:
                inline.pop()
            depth -= 1
        elif text in ("crate", "self", "super") and at + 1 < len(stream) and stream[at + 1][0] == "::" \
                and (at == 0 or stream[at - 1][0] not in ("::", "$")):
            within = [name for name, _ in inline]
            paths, at = expand(stream, at)
            for path in paths:
                yield within, path, line
            continue
        at += 1


def expand(stream, at):
    """The paths that begin at this token, with their {lists} written out, and the token after."""
    path = [stream[at][0]]
    at += 1
    while at < len(stream) and stream[at][0] == "::":
        at += 1
        if at < len(stream) and stream[at][0] == "{":
            paths, at = [], at + 1
            while stream[at][0] != "}":
                if stream[at][0] == ",":
                    at += 1
                    continue
                more, at = expand(stream, at)
                paths += [path + rest for rest in more]
                if at < len(stream) and stream[at][0] == "as":
                    at += 2
            return paths, at + 1
        path.append(stream[at][0])
        at += 1
    if at < len(stream) and stream[at][0] == "!":
        path = ["!"]
    return [path], at


def target(module, path):
    """The module of the root that is named by this path in that module; "main" for an item of
    the root itself; None outside of SRC."""
    first, rest = path[0], path[1:]
    at = [] if first == "crate" else list(module)
    if first == "super":
        if not at:
            return None
        at = at[:-1]
    while rest and rest[0] in ("super", "self"):
        at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
    full = at + rest
    if first == "!" or not full or full[0] in foreign:
        return None
    if full[0] in modules:
        return full[0]
    if full[0] in macros:
        return None
    return "main" if not at else at[0]


for path in sorted(src.rglob("*.rs")):
    module = module_path(path)
    here = module[0] if module else "main"
    if here not in layer_of:
        errors.append(f"{path}: the module {here} is in no layer of {layers.name}")
        continue
    for within, named, line in used(tokens(path.read_text())):
        there = target(module + within, named)
        if there is None or there == here or there not in layer_of:
            continue
        if layer_of[there] < layer_of[here]:
            errors.append(f"{path}:{line}: {here} uses {there}, which is above it ({'::'.join(named)})")
        elif layer_of[there] == layer_of[here]:
            errors.append(f"{path}:{line}: {here} uses {there}, which is in the same layer ({'::'.join(named)})")
for name in layer_of:
    if not (src / f"{name}.rs").exists() and not (src / name / "mod.rs").exists():
        errors.append(f"{layers}: there is no module {name}")
print("\n".join(dict.fromkeys(errors)))
sys.exit(bool(errors))
