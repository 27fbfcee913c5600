#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
#
# layouts.py MLX5_IFC_H: print, as Rust, where each field of the structs of the kernel's
# mlx5_ifc.h is. There a "u8 name[0xN]" is N bits wide, so the bit offset of a field
# is the sum of what comes before it. A struct becomes a module of constants of type Field,
# each command a constant in the module op.

import re
import sys

TOKENS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|0x[0-9A-Fa-f]+|\d+|[{}\[\];(),=]")
KEYWORDS = {"type", "match", "move", "mod", "in", "ref", "loop", "final", "priv", "use", "fn"}


class Unknown(Exception):
    """A size that this parser does not evaluate."""


class Parser:
    def __init__(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text)
        self.sizes = {}
        self.structs = {}
        self.tokens = []
        self.at = 0
        for head in re.finditer(r"^(struct|union) mlx5_ifc_(\w+)_bits \{", text, flags=re.M):
            end = text.index("\n};", head.start())
            self.tokens = TOKENS.findall(text[head.end():end]) + ["}"]
            self.at = 0
            try:
                size, fields = self.members(head[1] == "union")
            except (Unknown, KeyError):
                continue
            self.sizes[head[2]] = size
            self.structs[head[2]] = fields

    def next(self):
        self.at += 1
        return self.tokens[self.at - 1]

    def counts(self):
        """The dimensions of an array; empty brackets have the size 0."""
        counts = []
        while self.tokens[self.at] == "[":
            self.next()
            token = self.next()
            if token == "]":
                counts.append(0)
                continue
            if not token[0].isdigit():
                raise Unknown(token)
            counts.append(int(token, 0))
            if self.next() != "]":
                raise Unknown(token)
        return counts

    def declared(self):
        """The size of the type that comes next, and the fields that it has without a name."""
        token = self.next()
        if token == "u8":
            return 1, []
        if token == "DECLARE_FLEX_ARRAY":
            while self.next() != ")":
                pass
            self.at -= 1
            return 0, []
        if token not in ("struct", "union"):
            raise Unknown(token)
        name = self.next()
        if name == "{":
            return self.members(token == "union")
        return self.sizes[name.removeprefix("mlx5_ifc_").removesuffix("_bits")], []

    def members(self, union):
        offset = size = 0
        fields = []
        while self.tokens[self.at] != "}":
            one, inner = self.declared()
            token = self.next()
            if token == ")":
                token = self.next()
            while token == "[":
                raise Unknown(token)
            if token != ";":
                total = one
                counts = self.counts()
                for count in counts:
                    total *= count
                if not token.startswith("reserved"):
                    fields.append((token, offset, total))
                if self.next() != ";":
                    raise Unknown(token)
            else:
                total = one
                fields += [(name, offset + off, width) for name, off, width in inner]
            size = max(size, offset + total)
            if not union:
                offset += total
        self.next()
        return size, fields


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    parser = Parser(text)
    print("// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause")
    print("// Generated from the kernel's mlx5_ifc.h; do not edit.")
    for name, fields in parser.structs.items():
        print(f"pub mod {'r#' if name in KEYWORDS else ''}{name} {{")
        print(f"    pub const BYTES: usize = {parser.sizes[name] // 8};")
        for field, offset, width in fields:
            field = "r#" + field if field in KEYWORDS else field
            print(f"    pub const {field}: super::Field = super::Field::new({offset}, {width});")
        print("}")
    commands = re.findall(r"\bMLX5_CMD_OP_(\w+)\s*=\s*(0x[0-9a-f]+),", text)
    commands = [("_" + name if name[0].isdigit() else name, value) for name, value in commands]
    commands = [c for c in commands if not c[0].startswith(("GENERAL_", "MOD_"))]
    print("pub mod op {")
    for name, value in commands:
        print(f"    pub const {name}: u16 = {value};")
    print("    pub const NAMES: &[(u16, &str)] = &[")
    for name, value in commands:
        print(f'        ({value}, "{name}"),')
    print("    ];")
    print("}")


main()
