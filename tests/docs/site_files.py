"""The files of site_docs/ as the tests load them: `load("languages")` is the module.

Input: a name. The folder is no package of Python's: mkdocs loads its hooks by path.
"""

import importlib.util
from functools import cache
from pathlib import Path

SITE = Path(__file__).parents[2] / "site_docs"


@cache
def load(name):
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
