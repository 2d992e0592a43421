"""NumPy programs under a device context: where a GPU is the default device, arrays are computed there.

Input: a captured graph, and the default device at its call. To Python an array is always in the host's memory, and so
it is in the captured graph. The core graph, which writes to nothing, moves each input to the GPU, computes and makes
all arrays there, and moves its results back. What is written to an input, and which results share memory with what, is
therefore as without the context.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

from stage0_eager import TABLE
from stage2_autograd.core_calls import arguments, core_name, kind_of
from stage_contracts.capture import CapturedFrame
from stage_contracts.core_metas import to_device
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph, Node, map_args, meta_of
from stage_contracts.graph_module import GraphModule
from stage_contracts.layouts import is_dense
from stage_contracts.pipeline import Pipeline
from stage_contracts.source import ArraySource, ScalarSource
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import has_effect, makes_symbol


def place_of_arrays(graph: Graph, default: Device) -> Device | None:
    """The GPU on which a captured graph's arrays are computed; None: all is computed where it lies.

    A tensor that the program gets on the CPU stays there, and so does what it is computed with.
    """
    if default.type != "cuda":
        return None
    on_host = [n for n in graph.placeholders if _is_on(n.val, CPU)]
    if not all(isinstance(n.meta.get("source"), (ArraySource, ScalarSource)) for n in on_host):
        return None
    of_numpy = [n for n in graph.calls if str(getattr(n.target, "namespace", "")).startswith("numpy")]
    return default if of_numpy else None


def arrays_placed(frame: CapturedFrame, default: Device) -> CapturedFrame:
    """The frame, which says on what GPU its arrays are computed if that is the default device."""
    place = None if frame.graph is None else place_of_arrays(frame.graph, default)
    return frame if place is None else replace(frame, arrays_on=place)


def placed(pipeline: Pipeline, frame: CapturedFrame | None) -> tuple[Device | None, Pipeline]:
    """The GPU that computes the frame's arrays, and the pipeline with core graphs there."""
    device = frame.arrays_on if frame is not None else None
    if device is None:
        return None, pipeline
    return device, replace(pipeline, decompose=lambda graph: on_device(pipeline.decompose(graph), device))


def on_device(core: Graph, device: Device) -> Graph:
    """The core graph with all calls on `device`, from inputs and to results where they were. Itself if that cannot be:
    it has subgraphs, collectives, operators of unknown kind, or sizes that the data decides."""
    if not all(_can_move(n, device) for n in core.nodes):
        return core
    return _Mover(core, device).run()


def _can_move(node: Node, device: Device) -> bool:
    if node.op == "get_attr" and isinstance(node.graph.attributes[node.target], GraphModule):
        return False
    if node.op == "call_function" and node.target is not operator.getitem:
        if kind_of(node) in ("", "collective") or makes_symbol(node) or has_effect(node):
            return False
        if core_name(node) == "as_strided" and not node.args[0].val.is_contiguous:
            return False
    metas = node.val if isinstance(node.val, tuple) else (node.val,)
    return all(m.device in (CPU, device) for m in metas if isinstance(m, TensorMeta))


def _is_on(value: Any, device: Device) -> bool:
    return isinstance(value, TensorMeta) and value.device == device


class _Mover:
    """One core graph on its way to `device`. `images`: a node's value there, `kept`: an input as it comes."""

    def __init__(self, core: Graph, device: Device) -> None:
        self.core, self.device = core, device
        self.made = Graph(core.name)
        self.kept: dict[Node, Node] = {}
        self.images: dict[Node, Node] = {}
        self.back: dict[Node, Node] = {}
        self.is_joint = any("region" in n.meta for n in core.calls)
        # metas are the same but for the device, unless a copy closes gaps
        self.gaps = any(
            isinstance(n.val, TensorMeta) and not is_dense(n.val.shape, n.val.strides)
            for n in core.nodes
            if n.op in ("placeholder", "get_attr")
        )

    def run(self) -> Graph:
        for node in self.core.nodes:
            if node.op == "placeholder":
                self.kept[node] = self.made.placeholder(node.name, **node.meta)
            elif node.op == "get_attr":
                self.kept[node] = self.made.get_attr(node.target, self.core.attributes[node.target], node.val)
            elif node.op == "call_function":
                self.images[node] = self.call(node)
        self.made.output([self.result(v) if isinstance(v, Node) else v for v in self.core.outputs])
        return self.made.verify()

    def there(self, node: Node) -> Node:
        """A value where it is computed with. An input comes at its first use."""
        if node not in self.images:
            kept = self.kept[node]
            self.images[node] = self.move(kept, self.device, node) if _is_on(kept.val, CPU) else kept
        return self.images[node]

    def move(self, node: Node, to: Device, why: Node) -> Node:
        """`node` on another device, for `why`, of which a joint graph says whether it is of the forward."""
        of_joint = {"region": why.meta["region"]} if "region" in why.meta else {}
        if self.is_joint and not of_joint:
            of_joint = {"region": "backward" if why.meta.get("role") == "tangent" else "forward"}
        made = TABLE["core.to_device"], (node, to)
        return self.made.call_function(
            *made, val=to_device(node.val, to), origins=why.meta.get("origins", ()), **of_joint
        )

    def call(self, node: Node) -> Node:
        args, kwargs = map_args((node.args, node.kwargs), self.there)
        if core_name(node) == "to_device":
            return args[0]
        if kind_of(node) == "creation":
            args, kwargs = tuple(self.device if isinstance(a, Device) else a for a in arguments(node)), {}
        meta = {**node.meta, "val": self.meta_of_call(node, args, kwargs)}
        return self.made.call_function(node.target, args, kwargs, name=node.name, **meta)

    def meta_of_call(self, node: Node, args: tuple, kwargs: Any) -> Any:
        if not self.gaps:
            return _moved(node.val, self.device)
        if node.target is operator.getitem:
            return args[0].val[args[1]]
        metas, words = map_args((args, kwargs), meta_of)
        return node.target.core.meta(*node.target.bind(*metas, **words))

    def result(self, node: Node) -> Node:
        if node in self.kept:
            return self.kept[node]
        found = self.images[node]
        if found.val.device == node.val.device:
            return found
        if found not in self.back:
            self.back[found] = self.move(found, CPU, node)
        return self.back[found]


def _moved(value: Any, device: Device) -> Any:
    if isinstance(value, tuple):
        return tuple(_moved(v, device) for v in value)
    return value.with_(device=device, strides=value.strides) if isinstance(value, TensorMeta) else value
