"""What to look at in each station, a question, and where to read on: the tiny file, the contract, the lab.

Input: the key of a station. The links lead to the files of this installation, or on the site to its pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cutaway.page.markup import Html, el

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Hint:
    """`files` are (what it is, path in the repository)."""

    look: str
    question: str
    files: tuple[tuple[str, str], ...]


def _hint(look: str, question: str, tiny: str = "", contract: str = "", lab: str = "") -> Hint:
    named = (
        ("the tiny version", tiny),
        ("the contract", contract),
        ("the lab", lab and f"labs/{lab}/page.md"),
    )
    return Hint(look, question, tuple((what, path) for what, path in named if path))


_PIPELINE = "stage_contracts/pipeline.py"
HINTS = {
    "bytecode": _hint(
        "Find a call of yours: what is pushed before it, and what is on the stack after it?",
        "Which instructions have no colour, and why does no graph need them?",
        "stage1_capture/tiny.py", _PIPELINE, "lab02_capture"),
    "guards": _hint(
        "Read each line as a question that every call must answer with yes.",
        "Which argument could you change without a recompile?",
        "stage1_capture/tiny.py", "stage_contracts/guards.py", "lab03_guards"),
    "graph": _hint(
        "Every line is one operator. Loops and branches of yours are gone: they were run while capturing.",
        "Which line of your source became more than one line here?",
        "stage1_capture/tiny.py", "stage_contracts/graph.py", "lab02_capture"),
    "breaks": _hint(
        "The caret shows where capture stopped; the hint says what to write instead.",
        "What would a graph have to know to go on here?",
        "stage1_capture/breaks/resume.py", "stage_contracts/breaks.py", "lab10_breaks"),
    "residual": _hint(
        "This is what Python runs in place of your function.",
        "What does it do that the graph cannot?",
        "stage1_capture/tiny.py", "stage_contracts/capture.py", "lab02_capture"),
    "functional": _hint(
        "Look for a write in the captured graph, and for the new value that took its place.",
        "Who writes the value back, and when?",
        "stage2_autograd/tiny/functionalize.py", "stage_contracts/joint.py", "lab09_functionalize"),
    "joint": _hint(
        "Below the dashed line is the backward. Each line has the colour of the forward line that it differentiates.",
        "Which forward values does the backward read?",
        "stage2_autograd/tiny/differentiate.py", "stage_contracts/joint.py", "lab01_tape"),
    "core": _hint(
        "Count: one operator of the graph above may be several here.",
        "Which of these could be left out, because an earlier line computes the same?",
        "stage2_autograd/tiny/decompose.py", "stage_contracts/core_ops.py", ""),
    "cut": _hint(
        "Follow an arc across the cut: it is a value that stays in memory until the backward.",
        "Which saved value is cheaper to compute again than to keep?",
        "stage2_autograd/tiny/partition.py", _PIPELINE, "lab04_partition"),
    "loops": _hint(
        "Each nest has ranges and a body. A view has no nest: it is arithmetic on an index.",
        "Which two nests have the same ranges?",
        "stage3_lowering/tiny/lower.py", "stage_contracts/loop_ir.py", "lab05_lowering"),
    "fusion": _hint(
        "Each card is one kernel, with its nests. Below are the pairs that were tried, each answer with its reason.",
        "Which value never reaches memory because of this?",
        "stage3_lowering/tiny/fuse.py", "stage_contracts/scheduler_ir.py", "lab06_fusion"),
    "cpp": _hint(
        "Above each group of statements stands your line.",
        "Where is the loop that runs in SIMD lanes, and what is left over for the one after it?",
        "stage3_lowering/tiny/emit.py", _PIPELINE, "lab07_codegen"),
    "triton": _hint(
        "One program works on a block of elements; the mask keeps it inside of the array.",
        "What became of the loops of the C++?",
        "stage3_lowering/tiny/emit_triton.py", _PIPELINE, "lab13_triton"),
    "memory": _hint(
        "Time runs to the right, addresses run down. Two boxes below each other are alive together.",
        "Which step decides how large the pool must be?",
        "stage4_runtime/tiny/plan_memory.py", "stage_contracts/program.py", "lab08_memory"),
    "program": _hint(
        "Steps in order: allocate, launch, call, free, return.",
        "Which steps could change places?",
        "stage4_runtime/tiny/launch.py", "stage_contracts/program.py", "lab08_memory"),
    "launch": _hint(
        "The same steps as one Python function, without a loop over them.",
        "What does a call cost when the kernels are tiny?",
        "stage4_runtime/tiny/launch.py", _PIPELINE, ""),
    "events": _hint(
        "The longest bar is most often the C++ compiler: a second process finds its work in the cache.",
        "Which step would you make faster first?",
        "stage4_runtime/tiny/build.py", "stage_contracts/events.py", ""),
}  # fmt: skip


def guide(key: str, site: bool) -> Html | None:
    """The block of one station. site: links lead to pages beside this one."""
    hint = HINTS.get(key)
    if hint is None:
        return None
    links = [
        el("a", what, href=place) for what, path in hint.files if (place := _place(path, site)) is not None
    ]
    return el(
        "div", el("p", el("b", "Look at it. "), hint.look), el("p", el("b", "Think. "), hint.question),
        el("p", el("b", "Read on: "), *_with_commas(links)) if links else None, class_="guide",
    )  # fmt: skip


def _place(path: str, site: bool) -> str | None:
    installed = (ROOT / path, ROOT / "cutaway" / path)  # a wheel has the labs inside of the package
    found = next((place for place in installed if place.is_file()), None)
    if found is None:
        return None
    if not site:
        return found.as_uri()
    return path.replace("/page.md", "/index.html") if path.startswith("labs/") else f"source/{path}.html"


def _with_commas(links: list[Html]) -> list[object]:
    return [part for k, link in enumerate(links) for part in ((", ", link) if k else (link,))]
