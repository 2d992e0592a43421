"""What the seams of stage 2 exchange besides plain graphs: functional graphs, joint graphs, partitions.

Input: functionalize, differentiate and partition make these; the run-time wrapper reads them. Conventions follow
AOTAutograd: inputs are primals, then tangents; outputs are outputs, then gradients; everything is flat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from stage_contracts.graph import Graph, GraphError, Node
from stage_contracts.layouts import is_dense
from stage_contracts.origin import Origin
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

ResultPlan = tuple[Any, ...]  # (kind, which, *views): see FunctionalGraph.results


@dataclass(frozen=True)
class FunctionalGraph:
    """A graph without mutation.

    graph: outputs are the tensors it makes for the user (`num_outputs` of them, none sharing memory with
        another or with an input), then the new value of each input in `writes`.
    writes: the indices of the user's inputs that eager writes to, in order.
    rng_calls: how many calls of the random counter the graph makes. If this is not 0, the last placeholder has role
        "rng": int64[2], (seed, counter) at entry; the caller advances its generator by rng_calls.
    results: how each result of the user's function is made, once the written inputs are written back:
        ("output", i) is the graph's i-th output, ("input", i) the i-th input itself, ("constant", name) a constant
        of the graph; after these come view operators with their arguments, to be called one after another:
        ("input", 0, (core.slice, (0, 1, 2, 1))) is x[1:2]. None: the outputs as they are.
    silent: those of `writes` that autograd does not see, because they happen under no_grad or through detach().
    versions: for each output of `graph`, how many writes eager's version counter counts. () means one per written
        input.
    """

    graph: Graph
    num_outputs: int
    writes: tuple[int, ...] = ()
    rng_calls: int = 0
    results: tuple[ResultPlan, ...] | None = None
    silent: tuple[int, ...] = ()
    versions: tuple[int, ...] = ()

    def verify(self) -> FunctionalGraph:
        """Check the conventions above and return self. Raises GraphError."""
        self.graph.verify()
        if len(self.graph.outputs) != self.num_outputs + len(self.writes):
            raise GraphError(
                f"functional graph: {len(self.graph.outputs)} outputs, expected {self.num_outputs} that the function "
                f"returns and {len(self.writes)} for the inputs that it writes"
            )
        for node in self.graph.calls:
            if getattr(node.target, "mutates", ()):
                raise GraphError(f"functional graph: {node.name} writes to its argument")
        if not set(self.silent) <= set(self.writes):
            raise GraphError(
                f"functional graph: the writes under no_grad {self.silent} are not all among the writes {self.writes}"
            )
        roles = [n.meta.get("role") for n in self.graph.placeholders]
        if ("rng" in roles) != bool(self.rng_calls) or "rng" in roles[:-1]:
            raise GraphError(
                f"functional graph: it has {self.rng_calls} random calls, which needs one rng placeholder at most, "
                f"but the roles of its placeholders are {roles}"
            )
        return self


@dataclass(frozen=True)
class JointGraph:
    """Forward and backward in one functional graph.

    graph: placeholders are `num_primals` primals (role "primal" or "rng"), then one tangent per index in
        `tangent_outputs` (role "tangent"). Outputs are `num_outputs` forward outputs, then one gradient per
        primal (None where there is none). Each call node's meta["region"] is "forward" or "backward".
    """

    graph: Graph
    num_primals: int
    num_outputs: int
    tangent_outputs: tuple[int, ...]

    def verify(self) -> JointGraph:
        """Check the conventions above and return self. Raises GraphError."""
        self.graph.verify()
        inputs, outputs = self.graph.placeholders, self.graph.outputs
        if len(inputs) != self.num_primals + len(self.tangent_outputs):
            raise GraphError(
                f"joint graph: {len(inputs)} placeholders, expected {self.num_primals} primals and "
                f"{len(self.tangent_outputs)} tangents"
            )
        if len(outputs) != self.num_outputs + self.num_primals:
            raise GraphError(
                f"joint graph: {len(outputs)} outputs, expected {self.num_outputs} outputs and "
                f"{self.num_primals} gradients"
            )
        for node in self.graph.calls:
            if node.meta.get("region") not in ("forward", "backward"):
                raise GraphError(
                    f"joint graph: {node.name} is in neither region; expected meta['region'] to be 'forward' or "
                    "'backward'"
                )
        tangents = set(inputs[self.num_primals :])
        for node in self.graph.calls:
            if node.meta["region"] == "forward" and tangents & set(node.all_input_nodes):
                raise GraphError(f"joint graph: forward node {node.name} reads a tangent")
        return self


@dataclass(frozen=True)
class SavedTensor:
    """One value that is saved for the backward, and why it is not recomputed."""

    name: str
    meta: TensorMeta
    origins: tuple[Origin, ...]
    reason: str


@dataclass(frozen=True)
class Partition:
    """The joint graph cut in two.

    forward: primals in; `num_outputs` outputs, then the saved values out.
    backward: saved values (role "saved"), then tangents in; one gradient per primal (or None) out.
    """

    forward: Graph
    backward: Graph
    num_outputs: int
    saved: tuple[SavedTensor, ...]

    @property
    def saved_bytes(self) -> int:
        return sum(bytes_at_hints(s.meta) for s in self.saved)

    @property
    def recomputed(self) -> list[Node]:
        """The forward values that the backward recomputes."""
        return [n for n in self.backward.calls if n.meta.get("recomputed")]

    def report(self) -> str:
        """What is saved and what is recomputed: bytes, the user's line, and why. The largest value comes first."""
        saved = sorted(self.saved, key=lambda s: -bytes_at_hints(s.meta))
        rows = [(s.meta, s.name, _line(s.origins), s.reason) for s in saved]
        lines = [f"saved for the backward: {len(saved)} values, {self.saved_bytes:,} bytes", *_columns(rows)]
        again = [
            (n.val, n.name, _line(n.origins), f"{n.target.name} runs again")
            for n in self.recomputed
            if isinstance(n.val, TensorMeta)
        ]
        lines += [f"computed again in the backward: {len(again)} values", *_columns(again)]
        return "\n".join(lines)

    def verify(self) -> Partition:
        """Check that the two halves fit together and return self. Raises GraphError."""
        self.forward.verify()
        self.backward.verify()
        if len(self.forward.outputs) != self.num_outputs + len(self.saved):
            raise GraphError(
                f"partition: the forward graph has {len(self.forward.outputs)} outputs, expected {self.num_outputs} "
                f"that the function returns and {len(self.saved)} saved for the backward"
            )
        wanted = [n.name for n in self.backward.placeholders if n.meta.get("role") != "tangent"]
        saved = [s.name for s in self.saved]
        if wanted != saved:
            lost = [n for n in wanted if n not in saved] or "them in this order"
            extra = [n for n in saved if n not in wanted]
            raise GraphError(
                f"partition: the backward graph reads {lost}, which the forward graph does not save; saved but not "
                f"read: {extra}"
            )
        return self


def bytes_at_hints(meta: TensorMeta) -> int:
    """The bytes of a value, with symbolic sizes at their hints."""
    return math.prod(map(hinted, meta.shape)) * meta.dtype.itemsize


def _line(origins: tuple[Origin, ...]) -> str:
    return str(origins[0]) if origins else ""


def _columns(rows: list[tuple[TensorMeta, str, str, str]]) -> list[str]:
    words = [(f"{bytes_at_hints(m):,}", str(m), name, line, why) for m, name, line, why in rows]
    widths = [max(map(len, column)) for column in zip(*words, strict=True)]
    return [
        f"  {row[0]:>{widths[0]}}  "
        + "  ".join(word.ljust(width) for word, width in zip(row[1:], widths[1:], strict=True)).rstrip()
        for row in words
    ]


def tangent_meta(output: TensorMeta) -> TensorMeta:
    """The meta of the gradient of `output`: the same layout, or row-major if its elements share memory or have gaps."""
    strides = output.strides if is_dense(output.shape, output.strides) else None
    return output.with_(strides=strides, requires_grad=False)
