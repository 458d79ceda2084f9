"""Configuration of the documentation site."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import manyone

project = "manyone"
author = "the manyone developers"
copyright = "the manyone developers"
release = version = manyone.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_reference",
    "package_tables",
    "shell_session",
]
html_math_renderer = "mathml"
# No intersphinx and no MathJax: the site is built and read without a network.
exclude_patterns = ["_build", "auto_examples/*.ipynb"]
templates_path = ["_templates"]

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # "fit()" beside the page of a class
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Examples on real data are run where these data are.
data = Path(
    os.environ.setdefault(
        "MANYONE_DATA", str(Path(__file__).parents[2] / "shared" / "data")
    )
)
real = (
    ""
    if (data / "smd8_servers.npz").exists()
    else "keystrokes|products|servers|spacecraft|streams|turbofans"
)

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": rf"/plot_(?!{real}\.)" if real else "/plot_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 5,
    "backreferences_dir": "auto_examples/backreferences",
    "doc_module": ("manyone",),
    "nested_sections": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}
# plt.show() cannot show anything here, and need not say so.
warnings.filterwarnings("ignore", message=".*non-interactive.*")

html_theme = "pydata_sphinx_theme"
html_title = "manyone"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navbar_center": [],
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
# The contents stand beside every page, so the header needs no links.
html_sidebars: dict[str, list[str]] = {"**": ["contents.html"]}
