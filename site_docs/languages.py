"""The Arabic edition: which page translates which, what they share, and whether the English one has changed since.

Input: site_docs/ar/*.md. The front matter names the English page and has a short hash of each section of it. Code
is taken from the English page, so that what it prints is the same. `python site_docs/languages.py` says which sections
changed; with --accept, it writes today's hashes into the pages, which you have brought up to date before.
"""

import hashlib
import re
import sys
from pathlib import Path

SITE = Path(__file__).parent
BLOCK = re.compile(r"^```\w*\n(?:.*\n)*?```$|(?<=\n\n)(?: {4}.*\n)+", re.M)
LEFT_TO_RIGHT = "\u200e"  # after C++: without it, the signs stand before the letter
SHARED = re.compile(r"<!-- english code: (\d+) -->")
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.S)


def front_matter(path):
    """What stands between the first two lines of dashes, as a dict."""
    found = _FRONT.match(path.read_text(encoding="utf-8"))
    return dict(line.split(": ", 1) for line in found[1].splitlines()) if found else {}


def pages():
    """Arabic page -> its English page."""
    translated = {path: front_matter(path).get("english") for path in sorted((SITE / "ar").glob("*.md"))}
    return {path: SITE / english for path, english in translated.items() if english}


def sections(text):
    """(heading, short hash) of each part of a page that begins with a heading. Code is no part of it: it is shared."""
    parts = re.split(r"^(?=#+ )", BLOCK.sub("", text), flags=re.M)
    kept = [" ".join(part.split()) for part in parts if part.strip()]
    return [
        (part.splitlines()[0], digest)
        for part, digest in zip([p for p in parts if p.strip()], map(_hash, kept))
    ]


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def changed(path, english):
    """The headings of the English page whose text is not the one that was translated."""
    known = front_matter(path).get("sections", "").split()
    today = sections(english.read_text(encoding="utf-8"))
    if len(known) != len(today):
        return [f"{len(known)} sections were translated, there are {len(today)}"]
    return [heading for (heading, digest), was in zip(today, known) if digest != was]


def accept(path, english):
    text = path.read_text(encoding="utf-8")
    digests = " ".join(digest for _, digest in sections(english.read_text(encoding="utf-8")))
    path.write_text(
        re.sub(r"\n(sections: .*\n)?---\n", f"\nsections: {digests}\n---\n", text, count=1), encoding="utf-8"
    )


def blocks(path):
    """The code blocks of an English page, as they stand there."""
    return [found[0] for found in BLOCK.finditer(path.read_text(encoding="utf-8"))]


def with_shared_code(markdown, src_uri):
    """An Arabic page with the English page's code in place of its marks."""
    path = SITE / src_uri
    english = pages().get(path)
    if english is None:
        return markdown
    shared = blocks(english)
    markdown = re.sub(r"(?<![\w`])[Cg]\+\+", f"\\g<0>{LEFT_TO_RIGHT}", markdown)
    return SHARED.sub(lambda mark: shared[int(mark[1]) - 1].rstrip("\n"), markdown)


def counterpart(src_uri):
    """The same page in the other language, or the first page of that language."""
    pairs = {a.relative_to(SITE).as_posix(): e.relative_to(SITE).as_posix() for a, e in pages().items()}
    pairs["ar/glossary.md"] = "glossary.md"
    back = {english: arabic for arabic, english in pairs.items()}
    return pairs.get(src_uri, "start.md") if is_arabic(src_uri) else back.get(src_uri, "ar/start.md")


def is_arabic(src_uri):
    return src_uri.startswith("ar/")


if __name__ == "__main__":
    for arabic, original in pages().items():
        if "--accept" in sys.argv:
            accept(arabic, original)
        for each in changed(arabic, original):
            print(f"{arabic.relative_to(SITE)}: {original.relative_to(SITE)} changed: {each}")
