# SPDX-License-Identifier: GPL-2.0
"""Rust source as tokens, for the checks in scripts/static. Not a parser: it knows comments,
strings, characters and lifetimes, and keeps line numbers."""

import re

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
    |(?P<block>/\*)
    |(?P<text>[bc]?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes)|[bc]?"(?:[^"\\]|\\(?:.|\n))*")
    |(?P<char>b?'(?:[^'\\\n]|\\[^\n][^'\n]*)')
    |(?P<life>'[A-Za-z_]\w*)
    |(?P<word>\w+)
    |(?P<other>::|.)""",
    re.X,
)


def tokens(source):
    """Yields (text, line); a string is the token '"'."""
    at, line = 0, 1
    while at < len(source):
        found = TOKEN.match(source, at)
        end = found.end()
        if found.lastgroup == "block":
            depth = 1
            while depth and end < len(source):
                mark = source[end:end + 2]
                depth += (mark == "/*") - (mark == "*/")
                end += 2 if mark in ("/*", "*/") else 1
        elif found.group("text"):
            yield '"', line
        elif found.group("word") or found.group("other"):
            yield found.group(), line
        line += source.count("\n", at, end)
        at = end
