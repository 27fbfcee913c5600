#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""facts.py TOP: what is written in one place, and again where no program can insert it, is the
same there. Prints each difference as "file: ...".

  kernels     README.md, the newest entry of CHANGELOG.md and iopm doctor name the releases of scripts/kernels,
              README.md and Documentation/install.rst other distributions than Debian
  headers     dkms/kernel-tree and iopm doctor look for the same files in headers
  tests       the tests that documents name are there, and each hazard of Documentation/hazards.rst has one, or "\\-"
"""

import fnmatch
import json
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])


def text(name):
    return (top / name).read_text()


def different(name, what, source, found, known):
    """The differences of the names found in a file, and those known by the source, as errors."""
    found, known = set(found), set(known)
    for missing in sorted(known - found):
        yield f"{name}: the {what} {missing} of {source} is missing"
    for unknown in sorted(found - known):
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
    served = re.search(r"(?ms)^Served: .*?^$", text("README.md")).group()
    texts = ("README.md", text("README.md")), ("README.md", served), ("CHANGELOG.md", line and line.group())
    for name, words in texts:
        # Releases may be exact: 7.3.4 is one of 7.3.
        if words:
            named = re.findall(rf"(?<![\w.-])((?:{majors})\.\d+)(?:\.\d+)?\b", words)
            yield from different(name, "kernel release", "scripts/kernels", named, known)
    doctor = "userspace/src/bin/iopm/doctor/kernels.json"
    yield from different(doctor, "kernel release", "scripts/kernels", json.loads(text(doctor))["series"], known)
    for system, release in re.findall(r"(?m)^\d\S* +([a-z]+)/(\S+)", text("scripts/kernels")):
        for name in "README.md", "Documentation/install.rst":
            # "Fedora 43 and 44"
            if not re.search(rf"{system.capitalize()} [\d., and]*(?<!\d){re.escape(release)}\b", text(name)):
                yield f"{name}: {system.capitalize()} {release} of scripts/kernels is missing"


def headers():
    """What a build needs of the headers of a kernel."""
    script, doctor = "dkms/kernel-tree", "userspace/src/bin/iopm/doctor/kernels.json"
    known = re.search(r"(?ms)^\tneeded=\((rust/.*?)\)$", text(script))[1].split()
    found = [header["file"] for header in json.loads(text(doctor))["headers"]]
    yield from different(doctor, "file", script, found, known)


def table(name):
    """The rows of the list-table in a document: lists of cells."""
    rows = []
    for mark, cell, more in re.findall(r"(?m)^   (?:(\*| ) - (.*)|    (\S.*))$", text(name)):
        if mark == "*":
            rows.append([])
        if mark:
            rows[-1].append(cell)
        elif rows:
            rows[-1][-1] += " " + more
    return rows


def tests():
    """The tests that documents name: SUITE:TEST, in hazards.rst also SUITE.TEST and SUITE."""
    known = {}
    guest = [path.read_text() for path in sorted((top / "tests/guest").glob("*.sh"))]
    shared = set(re.findall(r"(?m)^test_(\w+)\(\)", "\n".join(guest)))
    for path in (top / "tests/guest/suites").glob("*.sh"):
        known[path.stem] = shared | set(re.findall(r"(?m)^test_(\w+)\(\)", path.read_text()))
    for directory in "src", "rust", "samples", "tests":
        for path in (top / directory).rglob("*.rs"):
            code = path.read_text()
            for suite in re.findall(r"kunit_tests\((\w+)\)\]", code):
                known.setdefault(suite.removeprefix("peer_mem_"), set()).update(re.findall(r"\bfn (\w+)", code))

    def missing(name):
        suite, _, test = name.replace(".", ":").partition(":")
        found = known.get(suite.removeprefix("peer_mem_"))
        if found is None:
            return not (top / name).exists()
        return test and not fnmatch.filter(found, test)

    for path in sorted((top / "Documentation").glob("*.rst")):
        for name in filter(missing, re.findall(r"``(\w+:\w+\*?)``", path.read_text())):
            yield f"{path.relative_to(top)}: there is no test {name}"
    for hazard, _, shown in table("Documentation/hazards.rst"):
        names = re.findall(r"``([^`]+)``", shown)
        if shown not in ("test", "the model", r"\-") and not names:
            yield f"Documentation/hazards.rst: no test: {hazard}"
        for name in filter(missing, names):
            yield f"Documentation/hazards.rst: there is no test {name}"


errors = [error for check in (kernels, headers, tests) for error in check()]
for error in errors:
    print(error)
sys.exit(bool(errors))
