"""Sphinx configuration; `make docs` builds with warnings as errors."""

project = "reticent"
author = "The reticent authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
myst_enable_extensions = ["dollarmath"]
nb_execution_mode = "off"  # tests run the notebooks and compare what they print
myst_heading_anchors = 3
