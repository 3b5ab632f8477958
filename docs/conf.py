"""Configuration of the documentation; ``make docs`` builds it, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "netperf_lib"
author = "The netperf_lib founders"
extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_copybutton",
    "sphinx_design",
    "generated",
]
nb_execution_mode = "auto"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
exclude_patterns = ["_build", "README.md", "figures.md"]
suppress_warnings = ["mystnb.unknown_mime_type"]
copybutton_prompt_text = "$ "

html_theme = "pydata_sphinx_theme"
html_title = "netperf_lib"
html_static_path = ["static"]
html_css_files = ["docs.css"]
html_sidebars = {"index": [], "**": ["globaltoc.html"]}
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": False,
    "navbar_center": [],
}
