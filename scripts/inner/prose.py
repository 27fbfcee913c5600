#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""prose.py LIMITS [NAME...]: counts the reference words in 100 words of each document (.rst, .md)
and of the Rust comments of each directory in LIMITS; with NAME, of each file there. A line of
LIMITS is a limit, space and a name. Fails above a limit, or if a document has no limit."""

import glob
import os
import re
import sys

REFERENCE = {"it", "this", "that", "those", "which", "one", "such", "them", "its", "so"}
WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*")
RULE = re.compile(r"\W*")


def document(lines):
    """The lines of a document, without code blocks, directives, and rules of headings and
    tables."""
    literal = fence = None
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith("```"):
            fence = not fence
        elif fence or not text or RULE.fullmatch(text):
            continue
        elif literal is not None and indent > literal:
            continue
        else:
            literal = None
            if re.match(r"\.\. (code-block|parsed-literal|literalinclude|graphviz|layers)::", text):
                literal = indent
            elif text.endswith("::") and not text.startswith(".. "):
                literal = indent
            if not re.match(r"\.\. |:[\w-]+:( |$)|<!--", text):
                yield line


def comments(lines):
    """The comments of a Rust file, without code blocks. Comments behind code are labels."""
    fence = False
    for line in lines:
        found = re.match(r"\s*//[/!]?(.*)", line)
        text = found.group(1) if found else ""
        if text.strip().startswith("```"):
            fence = not fence
        elif text and not fence and "SPDX-License-Identifier" not in text:
            yield text


def count(name):
    """(reference words, words) of a file. An inline literal is an identifier and no word."""
    read = comments if name.endswith(".rs") else document
    with open(name, encoding="utf-8") as file:
        text = "\n".join(read(file.read().split("\n")))
    text = re.sub(r"(`+)[^`]+\1", " ", text)
    words = [word.lower() for word in WORD.findall(text)]
    return sum(word in REFERENCE for word in words), len(words)


def files(name):
    if os.path.isdir(name):
        found = glob.glob(f"{name}/**/*.rs", recursive=True)
        return sorted(file for file in found if not file.endswith("_generated.rs"))
    return [name]


def figure(names):
    counts = [count(name) for name in names]
    words = sum(count[1] for count in counts)
    return 100 * sum(count[0] for count in counts) / max(words, 1), words


for name in sys.argv[2:]:
    for file in files(name):
        print("%5.1f  %6d words  %s" % (*figure([file]), file))
if sys.argv[2:]:
    sys.exit()

errors, limits = [], {}
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        if line.strip() and not line.startswith("#"):
            limit, name = line.split()
            limits[name] = float(limit)
for name in sorted(glob.glob("Documentation/*.rst")) + ["README.md"]:
    if name not in limits:
        errors.append(f"{name}: no limit in {sys.argv[1]}")
for name, limit in limits.items():
    if not os.path.exists(name) or not files(name):
        errors.append(f"{sys.argv[1]}: there is no {name}")
        continue
    value, words = figure(files(name))
    print(f"{value:5.2f} of {limit:4.1f}  {words:6} words  {name}")
    if value > limit:
        errors.append(f"{name}: {value:.2f} reference words in 100, the limit is {limit}")
        # The files that contribute most.
        if os.path.isdir(name):
            most = sorted(files(name), key=lambda file: count(file)[0] - count(file)[1] * limit / 100)
            errors += [f"  {figure([file])[0]:.1f} {file}" for file in most[:-6:-1]]
print("\n".join(errors))
sys.exit(bool(errors) or not limits)
