"""The labs on the site: a page with all of them, and each lab's own page with its drawings.

Input: the folders of labs/. What a learner reads in his folder and what the site shows is the same file.
"""

import tomllib
from pathlib import Path

LABS = Path(__file__).parent.parent / "labs"


def labs():
    """(folder, lab.toml as a dict), in the order of their numbers."""
    found = [
        (path.parent, tomllib.loads(path.read_text(encoding="utf-8"))) for path in LABS.glob("lab*/lab.toml")
    ]
    return sorted(found, key=lambda lab: lab[1]["number"])


def lab_files():
    """The site's files: path -> text."""
    files = {"labs/index.md": index_page()}
    for folder, _ in labs():
        files[f"labs/{folder.name}/index.md"] = (folder / "page.md").read_text(encoding="utf-8")
        for drawing in folder.glob("*.svg"):
            files[f"labs/{folder.name}/{drawing.name}"] = drawing.read_text(encoding="utf-8")
    return files


def index_page():
    rows = [
        f"| {lab['number']} | [{lab['title']}]({folder.name}/index.md) | {lab['hours']} | "
        f"{', '.join(map(str, lab['needs']))} | {'`' + lab['seam'] + '`' if lab['seam'] else ''} |"
        for folder, lab in labs()
    ]
    return (
        "# Labs\n\n"
        "A lab is a part of the compiler that you write yourself. You get a file that is complete but for a few "
        "bodies, a page that says what they must do, and checks that name your mistakes. What you write then runs in "
        "the real compiler.\n\n"
        "    cutaway lab start 1     # a folder of your own, with the page and the file\n"
        "    cutaway lab check       # how far you are\n"
        "    cutaway lab hint        # the next of three hints\n"
        "    cutaway lab solution    # how we wrote it\n\n"
        "You can begin with any of them. No GPU is needed, and no network.\n\n"
        "| lab | title | hours | after | seam |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )
