"""The seam `emit`: source for the kernels of a program, by one table of passes for each target.

Input: a Program with schedules, planned or not, and the target. One unit per graph (cpp), one module per kernel
(triton).
"""

from __future__ import annotations

from stage3_lowering.lowering.emit_cpp import emit_cpp
from stage3_lowering.lowering.emit_cpp_run import with_run
from stage3_lowering.lowering.emit_triton import emit_triton
from stage3_lowering.lowering.share_kernels import share_kernels
from stage3_lowering.lowering.triton_tables import fits_triton
from stage3_lowering.verify import verify_pass
from stage_contracts.kernel_tables import rows_apart
from stage_contracts.passes import Pass, PassTable
from stage_contracts.program import Program, Target

EMITTERS: dict[str, PassTable] = {
    "cpp": PassTable(
        "emit",
        (
            Pass("share_kernels", lambda program, target: share_kernels(program), "equal kernels become one"),
            Pass("cpp", emit_cpp, "a C++ function for each kernel", needed=True),
            Pass("run", lambda program, target: with_run(program), "a C++ function that runs all steps"),
        ),
        (
            ("share_kernels", "cpp", "what is written twice is compiled twice"),
            ("cpp", "run", "it calls the kernels"),
        ),
    ),
    "triton": PassTable(
        "emit",
        (
            Pass(
                "rows_apart",
                lambda program, target: rows_apart(program, fits_triton),
                "a launch per row of what reduces",
                needed=True,
            ),
            Pass("share_kernels", lambda program, target: share_kernels(program), "equal kernels become one"),
            Pass("triton", emit_triton, "a Triton module for each kernel", needed=True),
        ),
        (
            ("rows_apart", "triton", "a Triton kernel takes no table of reductions"),
            ("rows_apart", "share_kernels", "the rows of a table are often equal"),
            ("share_kernels", "triton", "what is written twice is compiled twice"),
        ),
    ),
}


def emit(program: Program, target: Target) -> Program:
    """Write source for the kernels: one unit per graph (cpp), one module per kernel (triton)."""
    return EMITTERS[target.name].run_as_configured(program, target, verify=verify_pass)
