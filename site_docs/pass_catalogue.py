"""The pages Passes, Fusion and Events, from the compiler's own tables.

Input: the pass tables of the stages, the codes with which fusion refuses, and the kinds of events.
"""

from stage1_capture.steps import CAPTURE
from stage2_autograd.decompose.passes import DECOMPOSE
from stage3_lowering.lowering.emit import EMITTERS
from stage3_lowering.lowering.fuse import FUSE
from stage3_lowering.lowering.schedule_kernels import SCHEDULE
from stage4_runtime.runtime.plan_memory import PLAN_MEMORY
from stage_contracts.scheduler_ir import REFUSALS

TABLES = (CAPTURE, DECOMPOSE, FUSE, SCHEDULE, PLAN_MEMORY, *EMITTERS.values())


def passes_page():
    parts = [
        "# Passes",
        "Each step of the compiler is a table of passes. A pass has a name, is timed, and its result is kept: "
        '`print(f.artifacts[-1].passes["fuse.groups"])`. Those that are not needed can be switched off: '
        '`config.patch(disabled_passes="fuse.groups")`. `cutaway bisect` finds the one that makes a program fail.',
    ]
    for table in TABLES:
        rows = [f"| `{p.name}` | {p.summary} | {'yes' if p.needed else ''} |" for p in table.passes]
        parts.append(
            f"## {table.stage}\n\n| pass | what it does | needed |\n| --- | --- | --- |\n" + "\n".join(rows)
        )
        if table.order:
            why = [f"- `{first}` before `{later}`: {reason}" for first, later, reason in table.order]
            parts.append("The order matters:\n\n" + "\n".join(why))
    return "\n\n".join(parts) + "\n"


def fusion_page():
    rows = "\n".join(f"| `{code}` | {reason} |" for code, reason in REFUSALS.items())
    return (
        "# Why two loops were not fused\n\n"
        "Fusion makes one kernel of several loop nests, where this saves reading or writing memory. When it does "
        "not fuse two nests, it says why, with a code: `print(f.artifacts[-1].forward.program.decisions)`, or "
        "`why_not_fused(a, b)`.\n\n"
        f"| code | reason |\n| --- | --- |\n{rows}\n"
    )
