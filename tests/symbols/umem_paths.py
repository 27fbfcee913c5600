#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""umem_paths.py IB_CORE.ko HOOKED...: every path to the pinning passes a hook.
umem_paths.py --hooks IB_CORE.ko HOOKED...: prints the functions that need a hook.
umem_paths.py --callers MODULE.ko HOOKED...: the module calls the hooked functions and
never jumps to them.

Builds the call graph of a module from its machine code, and walks it backwards
from the functions that pin user pages. The walk ends at the HOOKED functions. It
must reach no function that code outside of the module can call: an exported one,
or one whose address is taken.

A hooked function may call another one only if its replacement prevents that both serve the
buffer (MAY_NEST). A function of IF_NEEDED is hooked only if it pins without ib_umem_get_desc(), as a
trial at load shows the module; --hooks prints the functions that are hooked in this IB_CORE.ko.

The hook recognizes the calls of its own module by their return address. The compiler can make
a jump of a call that is the last thing in a function. The return address then is that of
the driver, and the hook redirects the call for ever.
"""

import re
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict

PINNING = re.compile(r"(pin|get)_user_pages")
MAY_NEST = ("ib_umem_get_cq_buf_or_va", "ib_umem_get_attr_or_va")
IF_NEEDED = ("ib_umem_get_attr_or_va",)
# Sections that refer to code without making it callable: unwinding, patch sites, exports.
NOT_CALLS = re.compile(
    r"\.rela(\.orc_|__mcount_loc|__patchable_function|\.return_sites|\.call_sites"
    r"|\.retpoline_sites|\.ibt_endbr_seal|\.cfi_sites|\.kcfi_traps|__ksymtab|\.altinstr"
    r"|__bug_table|__jump_table|__ex_table|\.smp_locks|\.static_call|\.eh_frame|\.debug_"
    r"|\.discard|_ftrace|\.BTF|\.text|\.init\.text|\.exit\.text|\.noinstr)"
)
JUMP = re.compile(r"^(jmp|j[a-z]+|b|b\.[a-z]+)q?$")
BRANCH = re.compile(r"^(call|jmp|j[a-z]+|bl|b|b\.[a-z]+|cbn?z|tbn?z)q?$")

FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
SECTION = re.compile(r"^Disassembly of section (.+):$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)(.*)$")
RELOCATION = re.compile(r"^\s*[0-9a-f]+:\s+(R_\S+)\s+(\S+)$")
TARGET = re.compile(r"<([^>+]+)(?:\+0x[0-9a-f]+)?>\s*$")
SYMBOL = re.compile(r"^(.*?)(?:([+-])0x([0-9a-f]+))?$")
DATA_RELOCATION = re.compile(r"^[0-9a-f]+\s+[0-9a-f]+\s+R_\S+\s+[0-9a-f]+\s+(\S+) ([+-]) ([0-9a-f]+)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


class Graph:
    """The calls between the functions of a module, and other uses of their addresses."""

    def __init__(self, path):
        self.functions = defaultdict(list)  # section: [(address, name)]
        self.calls = defaultdict(set)
        self.callers = defaultdict(set)
        self.jumps = set()  # (caller, callee)
        self.taken = defaultdict(set)  # name: where
        self.exported = set()
        lines = run("llvm-objdump", "-d", "-r", "--no-show-raw-insn", path)
        self.find_functions(lines)
        self.read_code(lines)
        self.read_data(path)

    def find_functions(self, lines):
        section = None
        for line in lines:
            if match := SECTION.match(line):
                section = match[1]
            elif match := FUNCTION.match(line):
                self.functions[section].append((int(match[1], 16), match[2]))
        for functions in self.functions.values():
            functions.sort()

    def resolve(self, name, offset):
        """The function that a symbol, or a place in a section, stands for."""
        functions = self.functions.get(name)
        if functions is None:
            return name
        i = bisect_right(functions, (offset, "\x7f"))
        return functions[i - 1][1] if i else name

    def add(self, caller, callee, branch):
        if callee == caller:
            return
        if branch:
            self.calls[caller].add(callee)
            self.callers[callee].add(caller)
        else:
            self.taken[callee].add(caller)

    def read_code(self, lines):
        function = shown = None
        branch = jump = False
        for line in lines:
            if match := FUNCTION.match(line):
                if shown:
                    self.add(function, shown, True)
                function, shown = match[2], None
            elif match := RELOCATION.match(line):
                # The instruction shows a target that the relocation replaces.
                shown = None
                name, sign, offset = SYMBOL.match(match[2]).groups()
                offset = int(offset or "0", 16) * (-1 if sign == "-" else 1)
                if match[1] in ("R_X86_64_PLT32", "R_X86_64_PC32"):
                    offset += 4
                callee = self.resolve(name, offset)
                self.add(function, callee, branch)
                if jump:
                    self.jumps.add((function, callee))
            elif match := INSTRUCTION.match(line):
                if shown:
                    self.add(function, shown, True)
                branch = bool(BRANCH.match(match[2]))
                jump = bool(JUMP.match(match[2]))
                target = TARGET.search(match[3])
                shown = target[1] if branch and target else None

    def read_data(self, path):
        skip = True
        section = None
        for line in run("llvm-readelf", "-r", "--wide", path):
            if line.startswith("Relocation section"):
                section = line.split("'")[1]
                skip = bool(NOT_CALLS.match(section))
            elif not skip and (match := DATA_RELOCATION.match(line.strip())):
                offset = int(match[3], 16) * (-1 if match[2] == "-" else 1)
                self.taken[self.resolve(match[1], offset)].add(section.removeprefix(".rela"))
        for line in run("llvm-readelf", "-s", "--wide", path):
            words = line.split()
            if words and words[-1].startswith("__ksymtab_"):
                self.exported.add(words[-1].removeprefix("__ksymtab_"))


def reachable(start, edges, stop=()):
    """The functions that the edges lead to, each with the one before it."""
    before, todo = {}, list(start)
    for name in todo:
        for other in sorted(edges[name]):
            if other not in before and other not in start:
                before[other] = name
                if other not in stop:
                    todo.append(other)
    return before


def path_of(name, before):
    path = [name]
    while path[-1] in before:
        path.append(before[path[-1]])
    return " -> ".join(path)


def check(graph, hooked):
    """Returns the errors, and the paths that are in order."""
    errors, found = [], []
    for name in hooked:
        if name not in graph.exported:
            errors.append(f"{name}() is not exported")
    pinning = [name for name in graph.callers if PINNING.match(name)]
    if not pinning:
        errors.append("nothing here pins user pages")
    before = reachable(pinning, graph.callers, stop=hooked)
    for name in sorted(before):
        path = path_of(name, before)
        if name in hooked:
            found.append(path)
        elif name in graph.exported:
            errors.append(f"no hook on the path {path}")
        elif name in graph.taken:
            where = ", ".join(sorted(graph.taken[name]))
            errors.append(f"no hook on the path {path}; {where} has the address of the first")
        elif not graph.callers[name]:
            errors.append(f"no hook on the path {path}, and nothing calls the first")
    for name in hooked:
        if name not in before:
            nested = reachable([name], graph.calls)
            if not any(other in nested for other in hooked):
                errors.append(f"{name}() does not pin: its hook serves nothing")
    for name in hooked:
        nested = reachable([name], graph.calls)
        for other in hooked:
            if other in nested:
                path = " -> ".join(reversed(path_of(other, nested).split(" -> ")))
                (found if name in MAY_NEST else errors).append(f"two hooks on the path {path}")
    return errors, found


def needed(graph, hooked):
    """The hooked functions without those of IF_NEEDED whose paths to the pinning have another hook."""
    always = [name for name in hooked if name not in IF_NEEDED]
    pinning = [name for name in graph.callers if PINNING.match(name)]
    past = reachable(pinning, graph.callers, stop=always)
    return [name for name in hooked if name in always or name in past]


def check_callers(graph, hooked):
    """Likewise for the module that has the hooks."""
    errors, found = [], []
    for name in hooked:
        if not graph.callers[name]:
            errors.append(f"does not call {name}()")
        for caller in sorted(graph.callers[name]):
            jump = (caller, name) in graph.jumps
            (errors if jump else found).append(f"{caller} {'jumps to' if jump else 'calls'} {name}()")
    return errors, found


def main():
    args = sys.argv[1:]
    option = args.pop(0) if args[0].startswith("--") else ""
    checks = check_callers if option == "--callers" else check
    path, hooked = args[0], args[1:]
    graph = Graph(path)
    if option != "--callers":
        hooked = needed(graph, hooked)
    if option == "--hooks":
        print("\n".join(hooked))
        return
    errors, found = checks(graph, hooked)
    for line in found:
        print(line)
    for line in errors:
        print(f"error: {path}: {line}")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
