"""Makes each package's README a page of the site, so that a stage is described in one place only.

Input: `*/README.md` of the packages beside site_docs; mkdocs calls the functions named on_*.
"""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "stage_contracts",
    "stage0_eager",
    "stage1_capture",
    "stage2_autograd",
    "stage3_lowering",
    "stage4_runtime",
)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def on_files(files, config):
    for package in PACKAGES:
        readme = ROOT / package / "README.md"
        if readme.exists():
            page = LINK.sub(_for_the_site, readme.read_text(encoding="utf-8"))
            files.append(File.generated(config, f"stages/{package}.md", content=page))
    return files


def _for_the_site(link):
    """A link to another README leads to its page; a link to a file of the source is only its name here."""
    text, target = link.groups()
    for package in PACKAGES:
        if target.rstrip("/").endswith((package, f"{package}/README.md")):
            return f"[{text}]({package}.md)"
    return text if text.startswith("`") else f"`{text}`"
