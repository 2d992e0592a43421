"""The first lines of every report in reports/: what it is; the command, the seed and the day; versions and machine.

Input: what the program that writes the report says of itself; `libraries` are those whose versions matter beside NumPy.
"""

import importlib
import platform
from datetime import UTC, datetime


def heading(title: str, command: str, seed: object, *libraries: str, more: str = "") -> str:
    """Three lines. `seed` is a number, or words that say what stands in its place."""
    versions = ", ".join([f"Python {platform.python_version()}", *map(version, ("numpy", *libraries))])
    machine = ", ".join(filter(None, (platform.machine(), more)))
    return f"{title}\n{command}; seed {seed}; {datetime.now(UTC):%Y-%m-%d}\n{versions}; {machine}"


def version(library: str) -> str:
    try:
        return f"{library} {importlib.import_module(library).__version__}"
    except ImportError:
        return f"no {library}"
