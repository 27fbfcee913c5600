#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""layers.py TOP: no module of TOP/src or TOP/rust/ext uses one of a layer above its own, or another
one of its own layer. A file LAYERS in each has a layer a line, the top one first: modules by their
path, with what is below them. The root of the crate is "main". No two files of src/ and rust/
have the same name. And only the room of rust/ext/base/compat.rs knows what differs between kernels.
Prints each violation as "file:line: ..."."""

import collections
import pathlib
import re
import sys

from rust_source import tokens


# The room, what only the room has, and what src/ and samples/ do not have either.
ROOM = re.compile(r"rust/ext/base/compat(/\w+)?\.rs|rust/ext/rdma/umem_hook/entry\.rs"
                  r"|rust/helpers/compat(_rdma)?\.h|tests/adapter/cq_entry\.rs")
FEATURE = re.compile(r"\bcfg\S*\(.*\bhave_\w+|\b(HAVE_[A-Z]\w*|LINUX_VERSION_CODE|KERNEL_VERSION)")
VERSION = re.compile(r"\b[67]\.\d{1,2}\b")


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
    """The segments of this path in that module, from the root of the crate."""
    first, rest = path[0], path[1:]
    at = [] if first == "crate" else list(module)
    if first == "super":
        at = at[:-1]
    while rest and rest[0] in ("super", "self"):
        at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
    return at + rest


class Source:
    """The modules in a directory, and what they use."""

    def __init__(self, directory, root=()):
        """The directory is the module ROOT of the crate."""
        self.directory, self.root = directory, list(root)
        self.layers = read(directory / "LAYERS")
        self.layer_of = {name: number for number, names in enumerate(self.layers) for name in names}
        # What the root of the crate defines besides modules. Other names at the root are of rust/, which knows
        # nothing of src/, or macros.
        main = directory / "main.rs"
        self.items = set(re.findall(r"(?m)^(?:pub(?:\(\w+\))? )?(?:struct|enum|trait|type|const|static|fn) (\w+)",
                                    main.read_text() if main.exists() else ""))

    def exists(self, name):
        """Is there a module of this name?"""
        return (self.directory / f"{name}.rs").exists()

    def files(self):
        """Yields (file, its module path in the directory) of each file."""
        for path in sorted(self.directory.rglob("*.rs")):
            parts = list(path.relative_to(self.directory).with_suffix("").parts)
            yield path, [] if parts == ["main"] else parts

    def listed(self, path):
        """The module of LAYERS that has this path; "main" for an item of the crate's root itself;
        None outside of the directory."""
        for length in range(len(path), 0, -1):
            if "/".join(path[:length]) in self.layer_of:
                return "/".join(path[:length])
        return "main" if not self.root and (not path or path[0] in self.items) else None

    def uses(self, path, module):
        """Yields (module of LAYERS, segments, line) for each use of another module in a file."""
        here = self.listed(module)
        for within, named, line in used(tokens(path.read_text())):
            full = absolute(self.root + module + within, named)
            if named[0] == "!" or not full or full[:len(self.root)] != self.root:
                continue
            there = self.listed(full[len(self.root):])
            if there not in (None, here):
                yield there, named, line

    def errors(self):
        """Yields each violation."""
        for path, module in self.files():
            here = self.listed(module)
            if here not in self.layer_of:
                # The file of a room only names the modules of the room.
                if not any(name.startswith("/".join(module) + "/") for name in self.layer_of):
                    yield f"{path}: the module {'/'.join(module)} is in no layer of {self.directory}/LAYERS"
                continue
            for there, named, line in self.uses(path, module):
                if self.layer_of[there] < self.layer_of[here]:
                    yield f"{path}:{line}: {here} uses {there}, which is above it ({'::'.join(named)})"
                elif self.layer_of[there] == self.layer_of[here]:
                    yield f"{path}:{line}: {here} uses {there}, which is in the same layer ({'::'.join(named)})"
        for name in self.layer_of:
            if not self.exists(name):
                yield f"{self.directory}/LAYERS: there is no module {name}"


def same_names(*directories):
    """Yields the files with the same name."""
    files = collections.defaultdict(list)
    for directory in directories:
        for path in sorted(directory.rglob("*.rs")):
            files[path.name].append(path)
    for paths in files.values():
        if len(paths) > 1:
            yield f"{paths[0]}: {' and '.join(map(str, paths[1:]))} has the same name"


def kernels(top):
    """Yields the lines outside of the room that depend on the kernel."""
    for path in sorted(path for name in ("src", "samples", "rust", "tests") for path in (top / name).rglob("*.*")):
        name = path.relative_to(top).as_posix()
        if path.suffix not in (".rs", ".c", ".h") or ROOM.fullmatch(name):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = FEATURE.search(line) or name.startswith(("src/", "samples/")) and VERSION.search(line)
            if found:
                yield f"{path}:{number}: {found[0]}: only the room of rust/ext/base/compat.rs knows kernels"


if __name__ == "__main__":
    top = pathlib.Path(sys.argv[1])
    src, rust = top / "src", top / "rust"
    found = dict.fromkeys((*Source(src).errors(), *Source(rust / "ext", ("shared", "ext")).errors(),
                           *same_names(src, rust), *kernels(top)))
    print("\n".join(found))
    sys.exit(bool(found))
