# SPDX-License-Identifier: GPL-2.0
"""Sphinx configuration: make htmldocs."""

project = "ib_peer_mem"
author = "The ib_peer_mem authors"
root_doc = "index"
extensions = ["sphinx.ext.graphviz"]
html_theme = "alabaster"
html_theme_options = {"page_width": "64em", "sidebar_width": "16em"}
# custom.css
html_static_path = ["_static"]
graphviz_output_format = "svg"
highlight_language = "none"
nitpicky = True
