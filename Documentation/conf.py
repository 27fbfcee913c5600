# SPDX-License-Identifier: GPL-2.0
"""Sphinx configuration: make htmldocs."""

import json
import pathlib

project = "ib_peer_mem"
author = "The ib_peer_mem authors"
root_doc = "index"
extensions = ["sphinx.ext.graphviz"]
# Options of programs keep their --.
smartquotes_action = "qe"
html_theme = "alabaster"
html_theme_options = {"page_width": "64em", "sidebar_width": "16em"}
# custom.css
html_static_path = ["_static"]
APPLICATIONS = "../userspace/src/bin/iopm/doctor/applications.json"
html_extra_path = [APPLICATIONS]
graphviz_output_format = "svg"
highlight_language = "none"
nitpicky = True


# What each look of applications.json finds.
LOOKS = {
    "any_file": ("{}", "or"),
    "any_directory": ("a directory in {}", "or"),
    "any_symbol": ("{} in ``/proc/kallsyms``", "or"),
    "all_symbols": ("{} in ``/proc/kallsyms``", "and"),
    "boot_config": ("{} in ``/boot/config-RELEASE``", "and"),
    "any_config": ("{} in the kernel's configuration", "and"),
    "device_name": ("{} in the name of an RDMA device", "or"),
    "import": ("an RDMA device that imports dma-bufs", ""),
    "variable_is": ("the variable {}", "that begins with"),
    "variable_is_not": ("no variable {}", "that begins with"),
    "nothing": ("looks at nothing, and registers by address", ""),
    "of_the_gpu": ("{} of CUDA", ""),
}


def condition(probes):
    """The probes of a way; see Conclusion::of() of iopm."""
    text = ""
    for probe in probes:
        kind, words = probe["look"], []
        if isinstance(kind, dict):
            (kind, words), = kind.items()
        form, between = LOOKS[kind]
        words = [f"``{word.strip()}``" for word in ([words] if isinstance(words, str) else words)]
        listed = f" {between} ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)
        text += form.format(listed) + {"found": ", and ", "missing": ", or "}.get(probe.get("undecided"), ", else ")
    return text.rpartition(", ")[0]


def insert_applications(_app, docname, source):
    """Puts the table of applications.json before the link to the file, which is then beside the page."""
    if docname != "applications":
        return
    data = json.loads((pathlib.Path(__file__).parent / APPLICATIONS).read_text())
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 20 80", "",
             "   * - application: memory", "     - takes for usable"]
    for application in data["applications"]:
        lines.append(f"   * - {application['name']}: {data['gpus'][application['gpu']]['name']}")
        ways = dict.fromkeys(probe["way"] for probe in application["probes"])
        texts = [f"*{way}*: " + condition(p for p in application["probes"] if p["way"] == way) for way in ways]
        if "wrong" in application:
            texts.append(f"*wrong*: {application['wrong']}")
        lines += ["     - " + "\n\n       ".join(texts)]
    before, after = source[0].split(f".. _applications.json: {APPLICATIONS}\n")
    source[0] = "\n".join([before, *lines, "", ".. _applications.json: applications.json", after])


def insert_untested(_app, docname, source):
    """Ends hazards.rst with the rows that have no test."""
    if docname == "hazards":
        rows = [row.split("\n     - ") for row in source[0].split("\n   * - ")]
        source[0] += "\n" + "".join(f"- {' '.join(row[0].split())}\n" for row in rows if row[2:] and row[2].startswith("\\-"))


def setup(app):
    """Called by Sphinx."""
    app.connect("source-read", insert_untested)
    app.connect("source-read", insert_applications)
