"""The guides of the site as the tests load them: GUIDES, by name.

Input: site_docs/guide_page.py, which is no package of Python's.
"""

import importlib.util
from pathlib import Path

SITE = Path(__file__).parents[2] / "site_docs"


def _guides():
    spec = importlib.util.spec_from_file_location("guide_page", SITE / "guide_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.GUIDES


GUIDES = _guides()
