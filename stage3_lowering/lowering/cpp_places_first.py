"""C++ that checks all places before an element is written at one, so that a bad index leaves everything as it was.

Input: a kernel that writes at places; stage_contracts/places.py says which check them first.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.cpp_kernel import KernelText
from stage3_lowering.lowering.cpp_nest import braces, printed
from stage3_lowering.lowering.cpp_plain import plain
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.places import checks_places_first, places_alone
from stage_contracts.program import Kernel


def places_checked_first(kernel: Kernel) -> list[str]:
    """Loops that only check the places: the kernel ends here, with nothing written, if one is bad."""
    if not checks_places_first(kernel):
        return []
    nest = places_alone(kernel.nests[0])
    alone = replace(kernel, nests=(nest,), schedule=None)
    text = KernelText(alone, KernelSchedule(tuple(map(str, nest.loop_variables))), True)
    lines = printed(plain(text, nest))
    if not lines[0].startswith(("for", "#pragma")):  # names that come again
        lines = braces(lines)
    return [*lines, "if (bad_index) return bad_index;  // nothing is written yet"]
