# SPDX-License-Identifier: GPL-2.0
"""Sphinx extension: what the documents take from the source, so that no document has a copy.

  .. layers::     draws the modules of src/ in the layers of src/LAYERS, with their uses. The content
                  has further arrows, a line each: NAME -> MODULE or MODULE -> NAME. A NAME is a
                  word or "quoted text".
  .. kernels::    the table of scripts/kernels, a row for each distribution.
"""

import pathlib
import re
import sys

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.ext.graphviz import graphviz
from sphinx.util.docutils import SphinxDirective

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "scripts" / "inner"))

import layers  # noqa: E402


def reduced(edges):
    """The arrows that no longer way of arrows stands for."""
    below = {}
    for here, there in edges:
        below.setdefault(here, set()).add(there)

    def reached(here, seen):
        for there in below.get(here, ()):
            if there not in seen:
                seen.add(there)
                reached(there, seen)
        return seen

    return {(here, there) for here, there in edges
            if not any(there in reached(other, set()) for other in below[here] - {there})}


def picture(rows, edges, extra):
    """The layers as a graph of dot. Every arrow is drawn that others do not imply."""
    out = ["digraph layers {",
           "graph [rankdir=TB, nodesep=0.25, ranksep=0.4];",
           "node [shape=box, fontsize=10, height=0.3];",
           "edge [arrowsize=0.7];"]
    for row in rows:
        out.append("{ rank=same; " + " ".join(f'"{name}";' for name in row) + " }")
    # A layer is below the one before, also where no arrow says so.
    out += [f'"{above[0]}" -> "{below[0]}" [style=invis];' for above, below in zip(rows, rows[1:])]
    modules = {name for row in rows for name in row}
    out += [f'"{name}" [shape=plaintext];' for name in sorted({name for edge in extra for name in edge} - modules)]
    out += [f'"{here}" -> "{there}";' for here, there in sorted(reduced(edges)) + extra]
    return "\n".join(out + ["}"])


class Layers(SphinxDirective):
    """The directive "layers"."""

    has_content = True
    option_spec = {"alt": directives.unchanged}

    def run(self):
        src = TOP / "src"
        source = layers.Source(src)
        edges = set()
        files = [src / "LAYERS", *(path for path, _ in source.files())]
        for path, module in source.files():
            edges |= {(source.listed(module), there) for there, _, _ in source.uses(path, module)}
        # The root of the crate only joins the others.
        rows = [[name for name in row if name != "main"] for row in source.layers]
        rows = [row for row in rows if row]
        modules = {name for row in rows for name in row}
        edges = {edge for edge in edges if modules.issuperset(edge)}
        extra = []
        for line in self.content:
            found = re.fullmatch(r'\s*("[^"]+"|\w+)\s*->\s*("[^"]+"|\w+)\s*', line)
            edge = tuple(name.strip('"') for name in found.groups()) if found else ()
            if not modules.intersection(edge):
                raise self.error(f"not an arrow to or from a module of {src / 'LAYERS'}: {line}")
            extra.append(edge)
        for path in files:
            self.env.note_dependency(str(path))
        node = graphviz()
        node["code"] = picture(rows, edges, extra)
        node["options"] = {"docname": self.env.docname}
        node["alt"] = self.options.get("alt", "The modules of src/ in their layers")
        self.set_source_info(node)
        return [node]


class Kernels(SphinxDirective):
    """The directive "kernels"."""

    def run(self):
        path = TOP / "scripts" / "kernels"
        self.env.note_dependency(str(path))
        rows = {}
        for line in path.read_text().splitlines():
            series, suite, *flavours = line.split() if line[:1].isdigit() else ("", "")
            if series:
                rows.setdefault((suite, ", ".join(flavours)), []).append(series)
        text = [".. list-table::", "   :header-rows: 1", ""]
        cells = [("distribution", "series", "kernels", "what was run")]
        for (suite, flavours), series in rows.items():
            system, slash, release = suite.partition("/")
            name = f"{system.capitalize()} {release}" if slash else f"Debian, {suite}"
            run = "see below" if slash else "its packages"
            cells.append((name, ", ".join(series), flavours, run))
        for row in cells:
            text += [f"   {'-' if column else '* -'} {cell}".replace("   -", "     -") for column, cell in enumerate(row)]
        node = nodes.Element()
        self.state.nested_parse(StringList(text, source=str(path)), self.content_offset, node)
        return node.children


def setup(app):
    app.add_directive("kernels", Kernels)
    app.add_directive("layers", Layers)
    return {"parallel_read_safe": True}
