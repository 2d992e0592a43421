"""The site's pages as finished Markdown, and a mkdocs.yml that names no hook: what Zensical, another builder, needs.

Input: the pages as the hooks leave them when mkdocs builds the site, its files, its navigation. Output: the folder
build/plain_site, for `make zensical`.
"""

import shutil
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
PLAIN = ROOT / "build" / "plain_site"


def begin():
    shutil.rmtree(PLAIN, ignore_errors=True)


def page(src_uri, meta, markdown):
    """Keep one page. Its front matter has been taken off by mkdocs, and is put back."""
    path = PLAIN / "docs" / src_uri
    path.parent.mkdir(parents=True, exist_ok=True)
    front = f"---\n{yaml.safe_dump(dict(meta))}---\n" if meta else ""
    path.write_text(front + markdown, encoding="utf-8")


def end(files, nav):
    """Keep what is no page, and the configuration."""
    for file in files:
        path = PLAIN / "docs" / file.src_uri
        ours = file.generated_by or str(file.abs_src_path).startswith(str(ROOT / "site_docs"))
        if ours and file.inclusion.is_included() and not file.is_documentation_page():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content_bytes)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    del settings["hooks"]
    settings |= {"nav": nav, "docs_dir": "docs", "site_dir": "site"}
    for plugin in settings["plugins"]:
        if isinstance(plugin, dict) and "mkdocstrings" in plugin:
            plugin["mkdocstrings"]["handlers"]["python"]["paths"] = ["../.."]
    for extension in settings["markdown_extensions"]:
        if isinstance(extension, dict) and "pymdownx.snippets" in extension:
            extension["pymdownx.snippets"]["base_path"] = ["docs"]
    text = yaml.safe_dump(settings, allow_unicode=True, sort_keys=False)
    (PLAIN / "mkdocs.yml").write_text(text, encoding="utf-8")
