#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""facts.py TOP: what is written in one place, and again where no program can insert it, is the
same there. Prints each difference as "file: ...".

  kernels     README.md and the newest entry of CHANGELOG.md name the releases of scripts/kernels
  counters    Documentation/sysfs.rst has the counters of src/stats/list.rs, and programs and suites
              read no others
"""

import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])


def text(name):
    return (top / name).read_text()


def different(name, what, source, found, known):
    """The differences of the names found in a file, and those known by the source, as errors."""
    for missing in sorted(set(known) - set(found)):
        yield f"{name}: the {what} {missing} of {source} is missing"
    for unknown in sorted(set(found) - set(known)):
        yield f"{name}: {source} has no {what} {unknown}"


def kernels():
    """The kernel releases."""
    known = re.findall(r"(?m)^\d\S*", text("scripts/kernels"))
    if not known:
        yield "scripts/kernels: no release"
    majors = "|".join(sorted({release.partition(".")[0] for release in known}))
    newest_entry = re.split(r"(?m)^## ", text("CHANGELOG.md"))[1]
    # An entry about other things need not have the line.
    line = re.search(r"(?m)^- Kernels: .*", newest_entry)
    for name, words in ("README.md", text("README.md")), ("CHANGELOG.md", line.group() if line else ""):
        # Releases may be exact: 7.3.4 is one of 7.3.
        named = re.findall(rf"(?<![\w.-])((?:{majors})\.\d+)(?:\.\d+)?\b", words)
        if words:
            yield from different(name, "kernel release", "scripts/kernels", named, known)


def counters():
    """The counters of a client in sysfs."""
    source = "src/stats/list.rs"
    known = re.findall(r'(?m)^\s*\w+ => c"(\w+)",$', text(source))
    rows = re.findall(r"(?m)^``(num_\w+)`` ", text("Documentation/sysfs.rst"))
    yield from different("Documentation/sysfs.rst", "counter", source, rows, known)
    # A name that is a part of another one, as of a function, is not meant.
    named = re.compile(r'client_counter\([^,()]*, "(\w+)"\)|\b(num_(?:alloc|dealloc|reg|dereg|free)_[a-z]+)\b')
    for folder in "userspace", "tests", "Documentation", "samples":
        for path in sorted((top / folder).rglob("*")):
            if path.suffix in (".c", ".rs", ".rst", ".sh") and path.is_file():
                found = {name for names in named.findall(path.read_text()) for name in names if name}
                for name in sorted(found - set(known)):
                    yield f"{path.relative_to(top)}: {source} has no counter {name}"


errors = [error for check in (kernels, counters) for error in check()]
for error in errors:
    print(error)
sys.exit(bool(errors))
