"""What the commands of the pages printed when the site was built: the tests read it, and need not run them once more.

Input: `put` is called by the site's build, which runs every command; `get` by tests/docs. A text is given back only to
the same tree on the same Python: one changed character in a package, or no site, and the tests run the command.
"""

import hashlib
import json
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "page_outputs"
PACKAGES = ("cutaway", "labs", "site_docs", "stage_contracts", "stage0_eager", "stage1_capture", "stage2_autograd",
            "stage3_lowering", "stage4_runtime")  # fmt: skip


@cache
def tree():
    """A hash of what the commands run: the packages' files, Python, NumPy."""
    found = hashlib.sha256(f"{sys.version} {numpy.__version__}".encode())
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in {".py", ".css", ".js", ".html", ".toml"} and path.is_file():
                found.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def put(mark, value):
    """Keep what stands for a mark of a page."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=KEPT, delete=False, encoding="utf-8") as file:
        json.dump({"tree": tree(), "mark": mark, "value": value}, file)
    Path(file.name).replace(_file(mark))


def get(mark):
    """What was kept of this tree for a mark, or None."""
    try:
        found = json.loads(_file(mark).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return found["value"] if found["tree"] == tree() else None


def _file(mark):
    return KEPT / f"{hashlib.sha256(mark.encode()).hexdigest()[:20]}.json"
