# SPDX-License-Identifier: GPL-2.0
"""Rust source for the checks in scripts/static. Not a parser: it relies on the style of rustfmt."""

import re

# Comments, strings and characters.
SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|\b[bc]?r(\#*)".*?"\1|"(?:[^"\\]|\\.)*"|'(?:[^'\\\n]|\\[^'\n]+|\\')'""", re.S)


def code(path):
    """The text of the file without comments, strings and characters."""
    return SKIPPED.sub("", path.read_text())
