#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""layers.py SRC LAYERS: no module in SRC uses one of a layer above its own, or another one
of its own layer. LAYERS has a layer a line, the top one first: the modules of SRC, by their
names in the crate root, which is "main". And each directory of rust/ext/ uses base and itself
alone. Prints each violation as "file:line: ...".
Documentation/from_source.py draws the same layers and uses."""

import pathlib
import re
import sys

from rust_source import tokens


def read(layers):
    """The layers of the file LAYERS, from top to bottom: the names of their modules."""
    lines = (line.partition("#")[0].split() for line in layers.read_text().splitlines())
    return [names for names in lines if names]


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


def absolute(module, path):
    """The segments of this path in that module, from the root of the crate, and the module at
    which the names begin."""
    first, rest = path[0], path[1:]
    at = [] if first == "crate" else list(module)
    if first == "super":
        at = at[:-1]
    while rest and rest[0] in ("super", "self"):
        at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
    return at + rest, at


class Source:
    """The modules of SRC, and what they use."""

    def __init__(self, src):
        self.src = src
        root = (src / "main.rs").read_text()
        # What "use crate::NAME" may name besides modules and items of the root: exported macros.
        self.macros = {name for top in (src, src.parent / "rust") for path in top.rglob("*.rs")
                       for name in re.findall(r"macro_rules! (\w+)", path.read_text())}
        self.modules = {path.stem for path in src.glob("*.rs")} | {path.name for path in src.iterdir() if path.is_dir()}
        # Modules of the root that are no part of SRC have no layer: rust/ knows nothing of SRC.
        foreign = set(re.findall(r'#\[path = "[^"]*"\]\s*(?:#\[.*\]\s*)?(?:pub(?:\([a-z]+\))? )?mod (\w+);', root))
        for name in sorted(foreign):
            for names in re.findall(rf"use {name}::(?:\{{([^}}]*)\}}|(\w+))", root):
                foreign |= set(re.findall(r"\w+", re.sub(r"//.*", "", "".join(names))))
        self.foreign = foreign

    def exists(self, name):
        """Is there a module of this name?"""
        return (self.src / f"{name}.rs").exists() or (self.src / name / "mod.rs").exists()

    def files(self):
        """Yields (file, its module path in the crate) of each file of SRC."""
        for path in sorted(self.src.rglob("*.rs")):
            parts = list(path.relative_to(self.src).with_suffix("").parts)
            if parts[-1] == "mod":
                parts.pop()
            yield path, [] if parts == ["main"] else parts

    def uses(self, path, module):
        """Yields (module of the root, segments, line) for each use of another module in a file."""
        for within, named, line in used(tokens(path.read_text())):
            there = self.target(module + within, named)
            if there is not None and there != (module[0] if module else "main"):
                yield there, named, line

    def target(self, module, path):
        """The module of the root that is named by this path in that module; "main" for an item of
        the root itself; None outside of SRC."""
        full, at = absolute(module, path)
        if path[0] == "!" or not full or full[0] in self.foreign:
            return None
        if full[0] in self.modules:
            return full[0]
        if full[0] in self.macros:
            return None
        return "main" if not at else at[0]


def errors(src, layers):
    """Yields each violation."""
    layer_of = {name: number for number, names in enumerate(read(layers)) for name in names}
    source = Source(src)
    for path, module in source.files():
        here = module[0] if module else "main"
        if here not in layer_of:
            yield f"{path}: the module {here} is in no layer of {layers.name}"
            continue
        for there, named, line in source.uses(path, module):
            if there not in layer_of:
                continue
            if layer_of[there] < layer_of[here]:
                yield f"{path}:{line}: {here} uses {there}, which is above it ({'::'.join(named)})"
            elif layer_of[there] == layer_of[here]:
                yield f"{path}:{line}: {here} uses {there}, which is in the same layer ({'::'.join(named)})"
    for name in layer_of:
        if not source.exists(name):
            yield f"{layers}: there is no module {name}"


def ext_errors(ext):
    """Yields each use of another directory of rust/ext/ than base, which all may use."""
    for path in sorted(ext.rglob("*.rs")):
        module = ["shared", "ext", *path.relative_to(ext).with_suffix("").parts]
        for within, named, line in used(tokens(path.read_text())):
            full, _ = absolute(module + within, named)
            if full[:2] == ["shared", "ext"] and full[2:3] not in ([], ["base"], module[2:3]):
                yield f"{path}:{line}: {module[2]} uses {full[2]} ({'::'.join(named)})"


if __name__ == "__main__":
    src, layers = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = dict.fromkeys((*errors(src, layers), *ext_errors(src.parent / "rust/ext")))
    print("\n".join(found))
    sys.exit(bool(found))
