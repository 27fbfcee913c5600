#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""facts.py TOP: what is written in one place, and again where no program can insert it, is the
same there. Prints each difference as "file: ...".

  kernels     README.md, the newest entry of CHANGELOG.md and iopm doctor name the releases of scripts/kernels,
              README.md and Documentation/install.rst other distributions than Debian
  headers     dkms/kernel-tree and iopm doctor look for the same files in headers
  modules     Documentation/architecture.rst has a line for each module of src/LAYERS
  counters    Documentation/operations.rst has the counters of src/records/stats/list.rs, and programs and suites
              read no others
  parameters  Documentation/operations.rst has the parameters of both modules, with the defaults,
              the syntax and the mode that the modules declare
  probes      Documentation/applications.rst has what iopm doctor looks at for each application
  tests       the tests that documents name are there, and each hazard of Documentation/hazards.rst has one
"""

import fnmatch
import json
import pathlib
import re
import sys

import layers

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
    for name, words in ("README.md", text("README.md")), ("CHANGELOG.md", line.group() if line else ""):
        # Releases may be exact: 7.3.4 is one of 7.3.
        named = re.findall(rf"(?<![\w.-])((?:{majors})\.\d+)(?:\.\d+)?\b", words)
        if words:
            yield from different(name, "kernel release", "scripts/kernels", named, known)
    doctor = "userspace/src/bin/iopm/doctor/kernels.json"
    yield from different(doctor, "kernel release", "scripts/kernels", json.loads(text(doctor))["series"], known)
    systems = re.findall(r"(?m)^\d\S* +([a-z]+)/(\S+)", text("scripts/kernels"))
    for name in "README.md", "Documentation/install.rst":
        for system, release in systems:
            # "Fedora 43 and 44"
            if not re.search(rf"{system.capitalize()} [\d., and]*(?<!\d){re.escape(release)}\b", text(name)):
                yield f"{name}: {system.capitalize()} {release} of scripts/kernels is missing"


def headers():
    """What a build needs of the headers of a kernel."""
    script, doctor = "dkms/kernel-tree", "userspace/src/bin/iopm/doctor/kernels.json"
    known = re.search(r"(?m)^\tfor file in (rust/.*); do$", text(script))[1].split()
    found = [header["file"] for header in json.loads(text(doctor))["headers"]]
    yield from different(doctor, "file", script, found, known)


def modules():
    """The modules of src/."""
    known = {name.rpartition("/")[2] for row in layers.read(top / "src/LAYERS") for name in row} - {"main"}
    section = text("Documentation/architecture.rst").partition("The layers of src/\n")[2].partition("\nThe path")[0]
    named = re.findall(r"``(\w+)``", "\n".join(re.findall(r"(?m)^(``.*?)  ", section)))
    yield from different("Documentation/architecture.rst", "module", "src/LAYERS", named, known)


def counters():
    """The counters of a client in sysfs."""
    source = "src/records/stats/list.rs"
    known = re.findall(r'(?m)^\s*\w+ => c"(\w+)",$', text(source))
    rows = re.findall(r"(?m)^``(num_\w+)`` ", text("Documentation/operations.rst"))
    yield from different("Documentation/operations.rst", "counter", source, rows, known)
    # A name that is a part of another one, as of a function, is not meant.
    named = re.compile(r'"(num_\w+)"|\b(num_(?:alloc|dealloc|reg|dereg|free)_[a-z]+)\b')
    for directory in "userspace", "tests", "Documentation", "samples":
        for path in sorted((top / directory).rglob("*")):
            if path.suffix in (".c", ".rs", ".rst", ".sh") and path.is_file():
                found = {name for names in named.findall(path.read_text()) for name in names if name}
                for name in sorted(found - set(known)):
                    yield f"{path.relative_to(top)}: {source} has no counter {name}"


def probes():
    """What applications look at, and the settings to make: files, and VARIABLE=VALUE."""
    document, source = "Documentation/applications.rst", "userspace/src/bin/iopm/doctor/applications.json"
    known, words = set(), re.compile(r'"(/[^"]*)"|\b([A-Z][A-Z_]+=\w+)')
    for line in text(source).split("\n"):
        if '"way"' in line:
            known |= {"".join(names).replace("/sys/kernel/mm/memory_peers", "P") for names in words.findall(line)}
    named = re.findall(r"``([^`]*)``", text(document).partition("What applications look at\n")[2])
    for missing in sorted(known - set(named)):
        yield f"{document}: {source} has {missing}"
    for unknown in sorted(name for name in named if re.match(r"P/|/sys/module/", name) and name not in known):
        yield f"{source} has no {unknown}, as {document}"


def table(name):
    """The rows of the list-table in a document: lists of cells."""
    rows = []
    for line in text(name).split("\n"):
        found = re.match(r"   (\*| ) - (.*)", line)
        if found:
            if found[1] == "*":
                rows.append([])
            rows[-1].append(found[2])
        elif rows and line.startswith("       "):
            rows[-1][-1] += " " + line.strip()
    return rows


def declared(directory):
    """The parameters that the C files of a module declare: {name: (mode, description, file)}."""
    found = {}
    for path in sorted((top / directory).glob("*.c")):
        code, file = path.read_text(), path.relative_to(top)
        descriptions = dict(re.findall(r'MODULE_PARM_DESC\((\w+), "([^"]*)"\)', code))
        for name, mode in re.findall(r"(?m)^module_param(?:_cb)?\((\w+),.*\b(0\d+)\);", code):
            found[name] = mode, descriptions.get(name, ""), file
        for name, mode, description in re.findall(r'CHECKED_PARAM\((\w+), (0\d+), "([^"]*)"\);', code):
            found[name] = mode, description, file
        # What Rust can read. A parameter that is missing there would be ignored.
        readable = {name for name, variable in re.findall(r'strcmp\(name, "(\w+)"\)\)\s+return (\w+);', code)
                    if name == variable}
        for name in sorted(readable ^ {name for name in found if found[name][2] == file}):
            yield f"{file}: {name} is not both a parameter and in ext_module_param_str()"
    return found


def parameters():
    """The module parameters."""
    document = "Documentation/operations.rst"
    at_load = "the module is loaded"
    rows = {(row[1], row[0].strip("`")): row[2:] for row in table(document)[1:]}
    known = {}
    for module, directory in ("ib_peer_mem", "src"), ("io_peer_mem", "samples/io_peer_mem"):
        found = yield from declared(directory)
        known |= {(module, name): value for name, value in found.items()}
    yield from different(document, "parameter", "src/params.c or samples/io_peer_mem/params.c",
                         map(" ".join, rows), map(" ".join, known))
    for key in sorted(rows.keys() & known.keys()):
        (value, default, _, counts), (mode, description, file) = rows[key], known[key]
        name = f"{document}: {' '.join(key)}"
        said = re.search(r"\(default: (.*)\)$", description)
        if not said or default.strip("`") != said[1]:
            yield f"{name}: the default is {default}, and in {file}: {description}"
        if value.startswith("`") and value.strip("`") not in description:
            yield f"{name}: the value is {value}, and in {file}: {description}"
        if (mode == "0444") != (counts == at_load):
            yield f"{name}: counts when {counts}, but the mode in {file} is {mode}"
    # The only number.
    limit = re.search(r"\bconst LIMIT: usize = ([\d_]+);", text("src/policy/named.rs"))
    default = rows.get(("ib_peer_mem", "max_names"), ["", ""])[1]
    if not limit or limit[1].replace("_", "") != default:
        yield f"{document}: the default of max_names is {default}, and not LIMIT of src/policy/named.rs"


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
        if shown not in ("test", "the model") and not names:
            yield f"Documentation/hazards.rst: no test: {hazard}"
        for name in filter(missing, names):
            yield f"Documentation/hazards.rst: there is no test {name}"


errors = [error for check in (kernels, headers, modules, counters, parameters, probes, tests) for error in check()]
for error in errors:
    print(error)
sys.exit(bool(errors))
