#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""facts.py TOP: what is written in one place, and again where no program can insert it, is the
same there. Prints each difference as "file: ...".

  kernels     README.md and the newest entry of CHANGELOG.md name the releases of scripts/kernels
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


errors = [error for check in (kernels,) for error in check()]
for error in errors:
    print(error)
sys.exit(bool(errors))
