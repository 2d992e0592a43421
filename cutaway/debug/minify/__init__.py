"""The minifier: makes a saved program that fails smaller, as long as it fails in the same way, down to `repro.py`.

Input: a program of `repro_after` (cutaway/repro.py). search.py is the map: what is left out (cuts.py), what else is
made simpler (simpler.py), in which order (smallest.py), how a try is run (children.py), when two failures are the same
(failure.py).
"""

from __future__ import annotations

from cutaway.debug.minify.search import Minified, NothingToMinify, minify

__all__ = ["Minified", "NothingToMinify", "minify"]
