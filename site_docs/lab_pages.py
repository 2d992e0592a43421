"""The labs on the site: a page with all of them, each lab's own page with its drawings, and each as a notebook.

Input: the folders of labs/. What a learner reads in his folder and what the site shows is the same file.
"""

from labs.catalogue import all_labs
from labs.notebook import notebook


def lab_files():
    """The site's files: path -> text."""
    files = {"labs/index.md": index_page()}
    for lab in all_labs():
        place = f"labs/{lab.package}"
        page = lab.page.read_text(encoding="utf-8")
        title, text = page.rstrip().split("\n", 1)
        begin = (
            f"`cutaway lab start {lab.number}` makes a folder of your own, with this page and the file to complete. "
            f"`cutaway lab check {lab.number}` says how far you are. This lab [as a notebook]({lab.package}.ipynb)."
        )
        files[f"{place}/index.md"] = f"{title}\n\n{begin}\n{text}\n"
        files[f"{place}/{lab.package}.ipynb"] = notebook(lab)
        for drawing in lab.folder.glob("*.svg"):
            files[f"{place}/{drawing.name}"] = drawing.read_text(encoding="utf-8")
    return files


def navigation():
    """The labs' part of the navigation."""
    pages = [{f"{lab.number} {lab.title}": f"labs/{lab.package}/index.md"} for lab in all_labs()]
    return [{"All labs": "labs/index.md"}, *pages]


def index_page():
    rows = [
        f"| {lab.number} | [{lab.title}]({lab.package}/index.md) | {lab.hours:g} | "
        f"{', '.join(map(str, lab.needs))} | {'`' + lab.seam + '`' if lab.seam else ''} |"
        for lab in all_labs()
    ]
    return (
        "# Labs\n\n"
        "A lab is a part of the compiler that you write yourself: a file that lacks a few bodies, a page that says "
        "what they must do, checks that name your mistakes. What you write then runs in the real compiler.\n\n"
        "    cutaway lab list        # hours, and what you have passed\n"
        "    cutaway lab start 1     # a folder of your own\n"
        "    cutaway lab check       # how far you are\n"
        "    cutaway lab hint        # the next of three\n"
        "    cutaway lab solution    # how we wrote it\n\n"
        "Begin with any. None needs a GPU or a network.\n\n"
        "| lab | title | hours | after | seam |\n| --- | --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )
