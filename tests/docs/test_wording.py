"""Plain English: words and phrases that must not come back, file names that say nothing, counts that documents state.

Input: every README and page, every Python file of the packages, the tests and the benchmarks.
"""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("stage_contracts", *sorted(path.name for path in ROOT.glob("stage[0-9]_*")), "cutaway", "labs")
CODE = [
    path for name in (*PACKAGES, "tests", "benchmarks", "site_docs") for path in (ROOT / name).rglob("*.py")
]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "site_docs").glob("*.md"), *ROOT.glob("*/README.md")]

# A pattern, and what to write instead.
WORDING = {
    r"\bdear(er|est)?\b": "expensive",
    r"\bthe house\b": "the architecture",
    r"\bledger\b": "the event log",
    r"\b[Nn]othing of (the user's|Cutaway|the compiler|it)\b": "your function is not ..., no part of ...",
    r"\b(function|code|class|method|hook|object|backend|kernel)s? of the user's\b": "user function, user-defined class",
    r"\b[Mm]end(s|ed|ing)?\b": "fix",
    r"\bfaults? of ours\b": "a bug in the compiler",
    r"\bsurely meant\b": "probably meant",
    r"\b(that )?there is not\b(?! [a-z])": "that does not exist",
    r"\bis the way back\b": "reads it back",
    r"\bthe default holds\b": "the default is used",
    r"\bof one's own\b": "your own",
    r"\band (its|their) kin\b": "and the like",
    r"\b[Ww]hat is asked (of|for)\b": "say who checks what",
    r"\bwhat nobody\b": "what nothing ...",
    r"\bknow nothing of each other\b": "do not know each other",
    r"\bsix packages\b": "count them",
    r"\bby decree\b": "because ...",
    r"\b(somebody|nobody) (asked|changes)\b": "say which code does it",
    r"\bas it is at first\b": "the default",
    r"\bbehind the graph's back\b": "without the graph's methods",
    r"\bchanges hands\b": "is then shared by ...",
    r"\bwhatever is asked for\b": "in any case",
}
FOLD = re.compile(r"\b[Ff]old(s|ed|ing)?\b")  # a reduction
IN_A_NAME = re.compile(r"(\b|_)[Ff]old(s|ed|ing)?(\b|_)")
FOLD_STAYS = re.compile(
    r"constant[ _-]?fold|constants? that may be folded|\b(nn|F)\.fold|[\"' ]fold[\"',]", re.I
)
OTHER_FOLDS = {  # torch.nn.Fold, constant folding
    "stage0_eager/nn/fold.py",
    "stage0_eager/functions/nn/fold.py",
    "stage0_eager/tests/test_stage0_sampling.py",
    "stage2_autograd/decompose/constant_folding.py",
}
NAMES = {"shown", "answers", "asking_functions", "keys", "nested", "dunders", "pieces", "bags", "quick_losses",
         "second_names", "shown_sizes", "container_dunders"}  # fmt: skip


@cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def test_wording():
    """Every file is read once: one expression finds the few lines that the patterns then explain."""
    whole = re.compile("|".join(f"(?:{pattern})" for pattern in WORDING))
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}\n    write: {instead}"
        for path in [*PAGES, *CODE]
        if path != Path(__file__) and whole.search(text_of(path))
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for pattern, instead in WORDING.items()
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


def test_a_reduction_is_called_so():
    words = dict.fromkeys(("stage3_lowering", "stage_contracts"), FOLD)
    words |= dict.fromkeys(("stage0_eager", "stage2_autograd"), IN_A_NAME)
    names = {path: path.relative_to(ROOT) for path in CODE}
    files = [p for p in CODE if names[p].parts[0] in words and names[p].as_posix() not in OTHER_FOLDS]
    found = [
        f"{names[path]}: {line.strip()}"
        for path in files
        for line in text_of(path).splitlines()
        if words[names[path].parts[0]].search(line) and not FOLD_STAYS.search(line)
    ]
    assert not found, "\n".join(found)


def test_files_have_names_of_the_field():
    assert not [path for path in CODE if path.stem in NAMES]


def test_the_readme_counts_and_lists_the_packages():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    with_tests = [name for name in PACKAGES if (ROOT / name / "tests").is_dir()]
    assert "eight packages, each with its own tests" in text and len(with_tests) == 8
    assert {f"`{name}/`" for name in PACKAGES} <= set(re.findall(r"^\| (`\w+/`) \|", text, re.M))


def test_the_files_of_capture_that_use_dis_are_those_its_readme_names():
    found = {
        path.relative_to(ROOT / "stage1_capture").as_posix()
        for path in (ROOT / "stage1_capture").rglob("*.py")
        if "tests" not in path.parts and re.search(r"^(import|from) dis\b", text_of(path), re.M)
    }
    assert found == {"frame/bytecode.py", "breaks/resume.py", "first.py", "tiny.py"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(path):
    prose = re.sub(r"```.*?```|`[^`\n]*`(?!\])", "", text_of(path), flags=re.S)
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose)
    made = ("stages/", "labs/", "breaks.md", "machine.svg", "tour.html")  # by the hooks of the site
    assert not [t for t in targets if not t.startswith((*made, "...")) and not (path.parent / t).exists()]
