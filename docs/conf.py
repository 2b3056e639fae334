"""How the site is built: `make docs`. Everything comes from this repository; nothing is fetched when a page is read."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "aptset"
author = "The aptset developers"
copyright = "The aptset developers"
version = release = version_of("aptset")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "generated_pages",
    "repository_links",
    "short_names",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
exclude_patterns = ["_build", "_ext", "notebooks", "examples", "**/README.txt"]
templates_path = ["_templates"]

# Formulas are written in plain text and code, as in the docstrings: they need no script, no font and no network, they
# can be searched and copied, and they look alike in a terminal and on a page.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # a quote or a dash in these pages is mostly code
toc_object_entries_show_parents = "hide"

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"torch_network|ray_batches|__init__",
    "subsection_order": "gallery_order.section_order",
    "within_subsection_order": "gallery_order.InOrder",
    "reset_modules": ("matplotlib", "gallery_order.set_large_letters"),
    "thumbnail_size": (640, 420),
    "show_memory": False,
    "write_computation_times": False,  # its page fetches scripts from elsewhere
    "download_all_examples": True,
    "remove_config_comments": True,
    "matplotlib_animations": False,
    "abort_on_example_error": True,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "aptset"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"changelog": [], "index": []}
html_theme_options = {
    "logo": {"text": "aptset"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
