# SPDX-License-Identifier: GPL-2.0
"""Sphinx configuration: make htmldocs."""

import pathlib
import re
import sys

project = "ib_peer_mem"
author = "The ib_peer_mem authors"
root_doc = "index"
# from_source.py is beside this file.
sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
extensions = ["sphinx.ext.graphviz", "from_source"]
html_theme = "alabaster"
html_theme_options = {"page_width": "64em", "sidebar_width": "16em"}
# custom.css
html_static_path = ["_static"]
graphviz_output_format = "svg"
highlight_language = "none"
nitpicky = True
# |kernels|: 7.1, 7.2 or 7.3.
_table = (pathlib.Path(__file__).parents[1] / "scripts" / "kernels").read_text()
_kernels = sorted(set(re.findall(r"(?m)^\d\S*", _table)), key=lambda series: [int(n) for n in series.split(".")])
rst_prolog = f".. |kernels| replace:: {' or '.join(filter(None, (', '.join(_kernels[:-1]), _kernels[-1])))}"
