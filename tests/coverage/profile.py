#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""profile.py MODULE.ko COUNTERS: print the LLVM text profile of a module.

COUNTERS has the bytes of the section __llvm_prf_cnts. The section __llvm_prf_data
maps functions to counters; in a module its pointers are relocations.
"""

import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

RECORD = 64  # size of an entry of __llvm_prf_data
COUNTERS_AT, COUNT_AT = 16, 48  # offsets of the pointer and of the number of counters
R_X86_64_PC64 = 24


def section(module, name):
    """The content of a section of the module."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run(["llvm-objcopy", f"--dump-section={name}={out}/section", module, f"{out}/copy"], check=True)
        return pathlib.Path(out, "section").read_bytes()


def uleb128(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def function_names(data):
    """Return names by the first eight bytes of their MD5, which the records contain."""
    names, at = {}, 0
    while at < len(data):
        if data[at] == 0:  # padding between objects
            at += 1
            continue
        plain, at = uleb128(data, at)
        packed, at = uleb128(data, at)
        raw = zlib.decompress(data[at : at + packed]) if packed else data[at : at + plain]
        at += packed or plain
        for name in raw.split(b"\x01"):
            (key,) = struct.unpack("<Q", hashlib.md5(name).digest()[:8])
            names[key] = name.decode()
    return names


def main(module, counters):
    values = pathlib.Path(counters).read_bytes()
    names = function_names(section(module, "__llvm_prf_names"))
    targets = {}
    for offset, info, addend in struct.iter_unpack("<QQq", section(module, ".rela__llvm_prf_data")):
        targets[offset] = (info & 0xFFFFFFFF, addend)
    records = section(module, "__llvm_prf_data")
    for at in range(0, len(records), RECORD):
        key, shape = struct.unpack_from("<QQ", records, at)
        (count,) = struct.unpack_from("<I", records, at + COUNT_AT)
        kind, addend = targets[at + COUNTERS_AT]
        if kind != R_X86_64_PC64:
            sys.exit(f"{module}: relocation of type {kind} in __llvm_prf_data")
        # The value is relative to the field, at this offset of the entry.
        numbers = struct.unpack_from(f"<{count}Q", values, addend - COUNTERS_AT)
        print(names[key], shape, count, *numbers, "", sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
