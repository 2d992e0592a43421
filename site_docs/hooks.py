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

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File
from mkdocs.structure.nav import Navigation

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
DRAFT = os.environ.get("SITE_DRAFT")  # for whoever writes a page: no command runs, and its place stays empty
ARABIC = "العربية"  # the title of its part of the navigation
# not `kernel[grid](...)`, which is code
LINK = re.compile(r"(?<!\w)\[([^\]]+)\]\((?!https?:|#)([^)]+)\)")


def on_config(config):
    (labs,) = [part["Labs"] for part in config.nav if "Labs" in part]
    labs[:0] = _beside("lab_pages").navigation()
    _beside("plain_site").begin()
    return config


def on_files(files, config):
    for package in PACKAGES:
        readme = ROOT / package / "README.md"
        if readme.exists():
            files.append(
                File.generated(config, f"stages/{package}.md", content=_with_site_links(readme, "../"))
            )
    contributing = _with_site_links(ROOT / "CONTRIBUTING.md", "")
    files.append(File.generated(config, "contributing.md", content=contributing))
    files.append(File.generated(config, "benchmarks.md", content=_beside("report_pages").reports_page()))
    files.append(File.generated(config, "features.md", content=_beside("features").features_page()))
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
    files.append(File.generated(config, "ar/glossary.md", content=_beside("glossary_ar").glossary_page()))
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


def on_page_markdown(markdown, page, **_):
    markdown = _beside("languages").with_shared_code(markdown, page.file.src_uri)
    if _beside("languages").is_arabic(
        page.file.src_uri
    ):  # its names of the code are those of the English page
        page.meta["search"] = {"boost": 0.5}
    pages = "dynamic_page", "debug_page", "guide_page", "names_page", "chapter_page"
    texts = (_beside("numpy_page").TABLES, *(_beside(page).TEXTS for page in pages))
    wanted = {mark: make for table in texts for mark, make in table.items() if mark in markdown}
    if DRAFT:
        wanted = {mark: make for mark, make in wanted.items() if " shown: " not in mark}
    commands = [make for mark, make in wanted.items() if " shown: " in mark]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each is a process of its own, and is kept
        list(pool.map(lambda make: make(), commands))
    for mark, make in wanted.items():
        text = make()
        markdown = markdown.replace(mark, text)
        _beside("kept_outputs").put(mark, text)
    markdown = markdown.replace("<!-- promotion table -->", _promotion_table())
    markdown = markdown.replace("<!-- core operators -->", _core_operators())
    words = "glossary_ar" if _beside("languages").is_arabic(page.file.src_uri) else "glossary"
    markdown = f"{markdown}\n\n{_beside(words).abbreviations()}\n"
    _beside("plain_site").page(page.file.src_uri, page.meta, markdown)
    return markdown


def on_env(env, config, files):
    _beside("plain_site").end(files, config.nav)


def on_page_context(context, page, config, nav):
    """An Arabic page has the theme's Arabic words, is read from the right, and has its own navigation."""
    languages = _beside("languages")
    arabic = languages.is_arabic(page.file.src_uri)
    config.theme["language"] = "ar" if arabic else "en"
    other = languages.counterpart(page.file.src_uri).replace(".md", ".html")
    here = page.file.src_uri.replace(".md", ".html")
    config.extra["alternate"] = [
        {"name": "English", "link": other if arabic else here, "lang": "en"},
        {"name": "العربية", "link": here if arabic else other, "lang": "ar"},
    ]
    own = [item for item in nav.items if item.title == ARABIC]
    context["nav"] = Navigation(
        own[0].children if arabic else [i for i in nav.items if i not in own], nav.pages
    )
    if page.next_page and languages.is_arabic(page.next_page.file.src_uri) is not arabic:
        page.next_page = None
    if page.previous_page and languages.is_arabic(page.previous_page.file.src_uri) is not arabic:
        page.previous_page = None
    return context


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
            # x[i][j] is no link
            meaning, rule = (text.replace("|", "\\|").replace("][", "]\\[") for text in (row.meaning, rule))
            lines.append(f"| `{row.name}({row.params})` | {meaning} | {rule} |")
        sections.append("\n".join(lines))
    return f"{len(CORE_OPS)} operators.\n\n" + "\n\n".join(sections)


def _promotion_table():
    """What each pair of dtypes of one rank class becomes, as a Markdown table."""
    rows = [["", *(f"`{name}`" for name in DTYPES)], ["---"] * (len(DTYPES) + 1)]
    for a in DTYPES.values():
        rows.append([f"**`{a.name}`**", *(promote(a, b).name for b in DTYPES.values())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _with_site_links(readme, up):
    """A page of the repository, for the site: links to READMEs lead to their pages, those to files to their source."""

    def there(link):
        text, target = link.groups()
        for package in PACKAGES:
            if target.rstrip("/").endswith((package, f"{package}/README.md")):
                return f"[{text}]({up}stages/{package}.md)"
        path = os.path.relpath((readme.parent / target.partition("#")[0]).resolve(), ROOT)
        page = _beside("source_pages").page_of(path)
        if page:
            return f'<a href="{up}{page}">{_code(text)}</a>'
        return text if text.startswith("`") else f"`{text}`"

    return LINK.sub(there, readme.read_text(encoding="utf-8"))


def _code(text):
    return f"<code>{text.strip('`')}</code>" if text.startswith("`") else text


def on_post_page(output, **_):
    """Without these links, from which the theme would look for a sitemap of each language: a folder has none."""
    return re.sub(r'\s*<link rel="alternate"[^>]*>', "", output)


@event_priority(-50)  # after the search wrote its index, before `offline` copies it
def on_post_build(config):
    site = Path(config["site_dir"])
    _beside("source_pages").write_pages(site)
    index = site / "search/search_index.json"
    forms = _beside("arabic_search").with_forms(index.read_text(encoding="utf-8"))
    index.write_text(forms, encoding="utf-8")
