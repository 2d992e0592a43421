"""Makes each package's README a page of the site, and tables of the source tables of the pages: all is said once.

Input: `*/README.md` of the packages beside site_docs, what `make oracle` wrote, the tables of dtypes and of core
operators; mkdocs calls the functions named on_*.
"""

import importlib.util
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from mkdocs.structure.files import File

from stage_contracts.core_ops import CORE_OPS, KINDS
from stage_contracts.dtype import DTYPES, promote

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "stage_contracts",
    "stage0_eager",
    "stage1_capture",
    "stage2_autograd",
    "stage3_lowering",
    "stage4_runtime",
)
# not `kernel[grid](...)`, which is code
LINK = re.compile(r"(?<!\w)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def on_files(files, config):
    for package in PACKAGES:
        readme = ROOT / package / "README.md"
        if readme.exists():
            page = LINK.sub(_for_the_site, readme.read_text(encoding="utf-8"))
            files.append(File.generated(config, f"stages/{package}.md", content=page))
    report = _oracle_page()
    wide = "---\nhide: [toc]\n---\n\n"  # eleven columns need the room
    files.append(File.generated(config, "oracle.md", content=wide + report))
    files.append(File.generated(config, "breaks.md", content=_beside("break_catalogue").catalogue_page()))
    messages = _beside("message_catalogue").messages_page()
    files.append(File.generated(config, "messages.md", content=messages))
    files.append(File.generated(config, "guards.md", content=_beside("break_catalogue").guards_page()))
    files.append(File.generated(config, "passes.md", content=_beside("pass_catalogue").passes_page()))
    files.append(File.generated(config, "fusion.md", content=_beside("pass_catalogue").fusion_page()))
    fields = _beside("dynamo_config_page").dynamo_config_page()
    files.append(File.generated(config, "dynamo_config.md", content=fields))
    files.append(File.generated(config, "glossary.md", content=_beside("glossary").glossary_page()))
    files.append(File.generated(config, "tour.html", content=_beside("live_pages").tour_html()))
    for path, text in _beside("lab_pages").lab_files().items():
        files.append(File.generated(config, path, content=text))
    return files


def _oracle_page():
    """The table if `make oracle` was run here, otherwise the sums that the repository keeps."""
    table = ROOT / "build" / "oracle.md"
    if table.exists():
        return table.read_text(encoding="utf-8")
    sums = (ROOT / "reports" / "oracle.txt").read_text(encoding="utf-8")
    above = "`make oracle`, run before `make site`, puts the whole table here."
    return f"# The oracle's table\n\n{above}\n\n```\n{sums}```\n"


@cache
def _beside(name):
    """A file beside this one, as a module: mkdocs loads hooks by path, so this is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_page_markdown(markdown, **_):
    pages = "dynamic_page", "debug_page", "guide_page", "names_page", "chapter_page"
    texts = (_beside("numpy_page").TABLES, *(_beside(page).TEXTS for page in pages))
    wanted = {mark: make for table in texts for mark, make in table.items() if mark in markdown}
    commands = [make for mark, make in wanted.items() if " shown: " in mark]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each is a process of its own, and is kept
        list(pool.map(lambda make: make(), commands))
    for mark, make in wanted.items():
        markdown = markdown.replace(mark, make())
    markdown = markdown.replace("<!-- promotion table -->", _promotion_table())
    markdown = markdown.replace("<!-- core operators -->", _core_operators())
    return f"{markdown}\n\n{_beside('glossary').abbreviations()}\n"


def _core_operators():
    """Every core operator with its parameters, meaning and result, a table per kind."""
    sections = []
    for kind, what in KINDS.items():
        rows = [row for row in CORE_OPS.values() if row.kind == kind]
        lines = [
            f"## {kind}",
            "",
            f"{what[0].upper()}{what[1:]}.",
            "",
            "| operator | yields | shape, dtype, layout |",
            "| --- | --- | --- |",
        ]
        for row in rows:
            rule = (row.meta.__doc__ or "").strip().partition("\n")[0]
            meaning, rule = (text.replace("|", "\\|") for text in (row.meaning, rule))
            lines.append(f"| `{row.name}({row.params})` | {meaning} | {rule} |")
        sections.append("\n".join(lines))
    return f"{len(CORE_OPS)} operators.\n\n" + "\n\n".join(sections)


def _promotion_table():
    """What each pair of dtypes of one rank class becomes, as a Markdown table."""
    rows = [["", *(f"`{name}`" for name in DTYPES)], ["---"] * (len(DTYPES) + 1)]
    for a in DTYPES.values():
        rows.append([f"**`{a.name}`**", *(promote(a, b).name for b in DTYPES.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _for_the_site(link):
    """A link to another README leads to its page; a link to a file of the source is only its name here."""
    text, target = link.groups()
    for package in PACKAGES:
        if target.rstrip("/").endswith((package, f"{package}/README.md")):
            return f"[{text}]({package}.md)"
    return text if text.startswith("`") else f"`{text}`"
