"""Names in launch code: a buffer keeps its name, unless the name would hide a helper, a kernel or an address.

Input: a Program. Its buffers often have the names of your parameters: `view`, `stream`, `p_x`.
"""

from __future__ import annotations

import functools
import keyword
import re
from collections.abc import Sequence

from stage_contracts.dtype import DTYPES
from stage_contracts.program import Program

HELPERS = (
    "accept", "address", "failed", "allocate_pool", "arena", "conform", "copyto", "current_stream", "cutaway",
    "empty", "float", "give_arena", "read_size", "ndarray", "new_arena", "out_of_range", "poison", "slot_view",
    "record_event", "refused", "stream", "streams_beside", "take_arena", "view", "wait_event", "wait_for",
    *(f"{name}_dtype" for name in DTYPES),
)  # fmt: skip
EXTERNAL_PREFIX, INTO_PREFIX, SUBGRAPH_PREFIX, PREPARED_PREFIX, NEW_PREFIX, ISSUE_PREFIX, GRID_PREFIX = (
    PREFIXES
) = (
    "eager_",
    "library_",
    "subgraph_",
    "prepared_",
    "array_for_",
    "issue_",
    "blocks_of_",
)


@functools.cache  # a program of hundreds of kernels asks for each name a dozen times
def identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() and not keyword.iskeyword(text) else f"program_{text}"


def fresh_names(
    program: Program, others: Sequence[str] = ()
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Names for buffers, kernels and sizes that hide no helper (and none of `others`), whatever the user called
    their parameters."""
    pools = [f"{word}{number}" for number, _ in enumerate(program.pools) for word in ("pool", "memory")]
    taken = {*HELPERS, *pools, *others, identifier(program.name), "_"}

    def fresh(original: str) -> str:
        name = identifier(original)
        if name.startswith(("p_", *PREFIXES)):
            name = f"b_{name}"
        while name in taken or f"p_{name}" in taken:
            name += "_"
        taken.update((name, f"p_{name}"))
        return name

    kernels = {name: fresh(name) for name in program.kernels}
    sizes = {size.name: fresh(size.name) for size in program.sizes}
    return {name: fresh(name) for name in program.buffers}, kernels, sizes
