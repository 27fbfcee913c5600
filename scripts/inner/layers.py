#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""layers.py TOP: no module of TOP/src or TOP/rust/ext uses one of a layer above its own, or another
one of its own layer. A file LAYERS in each has a layer a line, the top one first: modules by their
path, with what is below them. The root of the crate is "main". No two files of src/ and rust/, of
samples/io_peer_mem and rust/, or of tests/kunit/ have the same name. And only the room of
rust/ext/base/compat.rs knows what differs between kernels. Prints each violation as "file: ..."."""

import pathlib
import re
import sys

from rust_source import code

# The room, what only the room has, and what src/ and samples/ do not have either.
ROOM = re.compile(r"rust/ext/base/compat(/\w+)?\.rs|rust/ext/rdma/umem_hook/entry\.rs"
                  r"|rust/helpers/compat(_rdma)?\.h|tests/adapter/cq_entry\.rs")
FEATURE = re.compile(r"\bcfg\w*!?\s*\([^];{}]*?\bhave_\w+|\b(HAVE_[A-Z]\w*|LINUX_VERSION_CODE|KERNEL_VERSION)")
VERSION = re.compile(r"\b[67]\.\d{1,2}\b")
# A module within a file, by its indentation; paths with a list of what follows; paths.
INLINE = re.compile(r"(?ms)^( *)(?:pub(?:\(\w+\))? )?mod (\w+) \{$(.*?)^\1\}$")
LIST = re.compile(r"((?:\w+::)+)\{([^{}]*)\}")
PATH = re.compile(r"(?<![\w:$])(?:crate|self|super)(?:::\w+)+\b(?!!)")
ITEM = re.compile(r"(?m)^(?:pub(?:\(\w+\))? )?(?:struct|enum|trait|type|const|static|fn) (\w+)")


def used(text, within=()):
    """Yields (inline module, path) of each path that begins with crate, self or super."""
    for _, name, inner in INLINE.findall(text):
        yield from used(inner, (*within, name))
    text, more = INLINE.sub("", text), 1
    while more:
        text, more = LIST.subn(lambda found: ", ".join(
            found[1] + item.strip() for item in found[2].split(",") if item.strip()), text)
    yield from ((within, path) for path in PATH.findall(text))


def absolute(module, path):
    """The segments of this path in that module, from the root of the crate."""
    at = [] if path.startswith("crate") else list(module)
    for name in path.split("::"):
        if name == "super":
            at.pop()
        elif name not in ("crate", "self"):
            at.append(name)
    return at


def violations(directory, *root):
    """Yields those of the modules in a directory, which is the module ROOT of the crate."""
    layers = [line.partition("#")[0].split() for line in (directory / "LAYERS").read_text().splitlines()]
    layer_of = {name: number for number, names in enumerate(layers) for name in names}
    # What the root of the crate defines besides modules. Other names at the root are of rust/, which knows
    # nothing of src/, macros, or the prelude, which may name the lowest layer alone.
    main = directory / "main.rs"
    items = ITEM.findall(main.read_text()) if main.exists() else []

    def listed(path):
        """The module of LAYERS that has this path; None outside of the directory."""
        for length in range(len(path), 0, -1):
            if "/".join(path[:length]) in layer_of:
                return "/".join(path[:length])
        return "main" if not root and (not path or path[0] in items) else None

    for file in sorted(directory.rglob("*.rs")):
        module = [name for name in file.relative_to(directory).with_suffix("").parts if name != "main"]
        here = listed(module)
        if here not in layer_of:
            # The file of a room only names the modules of the room.
            if not any(name.startswith("/".join(module) + "/") for name in layer_of):
                yield f"{file}: the module {'/'.join(module)} is in no layer of {directory}/LAYERS"
            continue
        for within, path in used(code(file)):
            full = absolute((*root, *module, *within), path)
            there = listed(full[len(root):]) if full[:len(root)] == list(root) else None
            above = len(layers) - 2 if within == ("prelude",) else layer_of[here]
            if there not in (None, here) and layer_of[there] <= above:
                yield f"{file}: {here} uses {there}, which is not below it ({path})"
    for name in layer_of:
        if not (directory / f"{name}.rs").exists():
            yield f"{directory}/LAYERS: there is no module {name}"


def same_names(*directories):
    """Yields the files with the same name."""
    files = {}
    for path in sorted(path for directory in directories for path in directory.rglob("*.rs")):
        if path != files.setdefault(path.name, path):
            yield f"{path}: {files[path.name]} has the same name"


def kernels(top):
    """Yields the lines outside of the room that depend on the kernel."""
    for path in sorted(path for name in ("src", "samples", "rust", "tests") for path in (top / name).rglob("*.*")):
        name = path.relative_to(top).as_posix()
        if path.suffix not in (".rs", ".c", ".h") or ROOM.fullmatch(name):
            continue
        text = path.read_text()
        found = [*FEATURE.finditer(text), *(VERSION.finditer(text) if name.startswith(("src/", "samples/")) else ())]
        for match in found:
            line, what = text.count("\n", 0, match.start()) + 1, " ".join(match[0].split())
            yield f"{path}:{line}: {what}: only the room of rust/ext/base/compat.rs knows kernels"


if __name__ == "__main__":
    top = pathlib.Path(sys.argv[1])
    src, rust = top / "src", top / "rust"
    found = dict.fromkeys((*violations(src), *violations(rust / "ext", "shared", "ext"),
                           *same_names(src, rust), *same_names(top / "samples/io_peer_mem", rust),
                           *same_names(top / "tests/kunit"), *kernels(top)))
    print("\n".join(found))
    sys.exit(bool(found))
