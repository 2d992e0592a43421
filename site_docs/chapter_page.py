"""What the chapters show: each stage's program, the artifacts that it leaves, their drawings, and the tiny file.

Input: chapters/programs/<stage>.py, run when the site is built. hooks.py asks for a text by its mark in a page.
"""

import importlib.util
import inspect
from functools import cache
from pathlib import Path

from stage1_capture import tiny as tiny_capture
from stage1_capture.steps import CAPTURE
from stage2_autograd.decompose.passes import DECOMPOSE
from stage2_autograd.tiny.partition import partition as save_everything
from stage2_autograd.tiny.partition import read_by_backward, to_save
from stage3_lowering import tiny as tiny_lowering
from stage3_lowering.lowering.fuse import FUSE
from stage3_lowering.lowering.schedule_kernels import SCHEDULE
from stage4_runtime.runtime.plan_memory import PLAN_MEMORY
from stage4_runtime.tiny.dispatch import dispatch
from stage4_runtime.tiny.plan_memory import first_fit, last_uses

HERE = Path(__file__).parent
PROGRAMS = HERE / "chapters" / "programs"
FUNCTIONS = {"capture": "layer", "autograd": "loss_of", "lowering": "normalize", "runtime": "net"}


def _load(path):
    """A file as a module: mkdocs loads hooks by path, so this folder is no package."""
    spec = importlib.util.spec_from_file_location(f"site_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


drawings = _load(HERE / "drawings.py")
source_pages = _load(HERE / "source_pages.py")


@cache
def run(stage):
    """The artifacts of a chapter's program, oldest first."""
    return list(getattr(_load(PROGRAMS / f"{stage}.py"), FUNCTIONS[stage]).artifacts)


def last(stage):
    return run(stage)[-1]


def tiny_fused():
    return tiny_lowering.fuse(last("lowering").forward.lowered)


def second_nest():
    return last("lowering").forward.lowered.nodes[1]


# name: (language, what makes the text)
ARTIFACTS = {
    "bytecode": ("text", lambda: run("capture")[0].passes["capture.instructions"]),
    "captured": ("python", lambda: run("capture")[0].captured),
    "resumed": ("python", lambda: run("capture")[1].captured),
    "residual": ("python", lambda: run("capture")[0].frame.residual_source),
    "guards": ("python", lambda: run("capture")[0].passes["capture.guards"]),
    "break": ("text", lambda: "\n".join(map(str, run("capture")[0].frame.breaks))),
    "functional": ("python", lambda: last("autograd").functional.graph),
    "joint": ("python", lambda: last("autograd").joint.graph),
    "decomposed": ("python", lambda: last("autograd").decomposed.graph),
    "partition": ("text", lambda: last("autograd").partition.report()),
    "lowered": ("python", lambda: last("lowering").forward.lowered),
    "decisions": ("text", lambda: "\n".join(map(str, last("lowering").forward.fused.decisions))),
    "cpp": ("cpp", lambda: _kernels_only(last("lowering").passes["emit.forward"])),
    "runtime guards": (
        "python",
        lambda: "\n\n".join(str(a.passes["capture.guards"]) for a in run("runtime")),
    ),
    "pools": ("text", lambda: f"bytes of each pool: {run('runtime')[0].forward.planned.pools}"),
}


def _kernels_only(source):
    """The C++ up to the function that runs the whole graph."""
    return str(source).partition("// ---- run:")[0]


# name: (what it shows, boxes and edges)
DRAWINGS = {
    "captured": ("The graph before the break", lambda: drawings.graph(run("capture")[0].captured)),
    "resumed": ("The graph after the break", lambda: drawings.graph(run("capture")[1].captured)),
    "break": ("A graph break joins two graphs", lambda: drawings.breaks([a.frame for a in run("capture")])),
    "guards": ("What the guards of the first graph read", lambda: drawings.guards(run("capture")[0].frame)),
    "steps of capture": ("The order of the steps of capture", lambda: drawings.passes(CAPTURE)),
    "with the write": ("As captured: mul_ writes to y", lambda: drawings.graph(last("autograd").captured)),
    "functional": (
        "Functional: a value takes the place of the write",
        lambda: drawings.graph(last("autograd").functional.graph),
    ),
    "joint": (
        "The joint graph: forward blue, backward orange",
        lambda: drawings.graph(last("autograd").joint.graph),
    ),
    "decomposed": ("In core operators", lambda: drawings.graph(last("autograd").decomposed.graph)),
    "cut": (
        "What our partition saves",
        lambda: drawings.cut(last("autograd").decomposed.graph, last("autograd").partition),
    ),
    "tiny cut": (
        "What the tiny partition saves",
        lambda: drawings.cut(last("autograd").decomposed.graph, save_everything(last("autograd").decomposed)),
    ),
    "forward": ("The forward graph", lambda: drawings.graph(last("autograd").partition.forward)),
    "backward": ("The backward graph", lambda: drawings.graph(last("autograd").partition.backward)),
    "passes of decompose": ("The order of decompose's passes", lambda: drawings.passes(DECOMPOSE)),
    "lowered": (
        "Loop nests, and the buffers between them",
        lambda: drawings.lowered(last("lowering").forward.lowered),
    ),
    "tiny fused": ("Kernels, fused by the tiny fuse", lambda: drawings.program(tiny_fused())),
    "fused": (
        "Kernels, fused by the real fuse",
        lambda: drawings.program(last("lowering").forward.fused),
    ),
    "body": ("The body of one nest", lambda: drawings.body(second_nest())),
    "passes of fuse": ("The order of fuse's passes", lambda: drawings.passes(FUSE)),
    "passes of schedule": ("The order of schedule's passes", lambda: drawings.passes(SCHEDULE)),
    "net": ("Kernels and calls of net", lambda: drawings.program(run("runtime")[0].forward.fused)),
    "memory": (
        "Steps, and the place of each temporary",
        lambda: drawings.memory(run("runtime")[0].forward.planned),
    ),
    "entries": ("Which entry runs", lambda: drawings.entries([a.frame for a in reversed(run("runtime"))])),
    "passes of plan_memory": ("The order of plan_memory's passes", lambda: drawings.passes(PLAN_MEMORY)),
}
SOURCES = {
    "capture": tiny_capture.capture,
    "call": tiny_capture.call,
    "jump_if": tiny_capture.jump_if,
    "read_by_backward": read_by_backward,
    "to_save": to_save,
    "fuse": tiny_lowering.fuse,
    "last_uses": last_uses,
    "first_fit": first_fit,
    "dispatch": dispatch,
}


def _fence(language, text):
    return f"```{language}\n{str(text).strip().replace(f'{PROGRAMS}/', '')}\n```"


def _program(stage):
    return _fence("python", (PROGRAMS / f"{stage}.py").read_text(encoding="utf-8"))


def _artifact(name):
    language, make = ARTIFACTS[name]
    return _fence(language, make())


def _drawing(name):
    title, make = DRAWINGS[name]
    drawn = "".join(drawings.svg(title, *make()).splitlines())
    return (
        f'<figure class="drawing" tabindex="0" markdown="0">{drawn}<figcaption>{title}</figcaption></figure>'
    )


def _source(name):
    """A function of a tiny, without the marks of the labs."""
    lines = inspect.getsource(SOURCES[name]).splitlines()
    page, path, line = source_pages.link_to(SOURCES[name])
    shown = _fence("python", "\n".join(line for line in lines if not line.strip().startswith("# lab:")))
    return f'{shown}\n\n<p class="source-of"><a href="../{page}">{path}, line {line}</a></p>'


def _texts(word, names, make):
    return {f"<!-- chapter {word}: {name} -->": cache(lambda name=name: make(name)) for name in names}


TEXTS = {
    **_texts("program", FUNCTIONS, _program),
    **_texts("artifact", ARTIFACTS, _artifact),
    **_texts("drawing", DRAWINGS, _drawing),
    **_texts("source", SOURCES, _source),
}
