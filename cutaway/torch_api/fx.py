"""torch.fx and the modules below it that published code imports: cutaway.fx under torch's paths.

Input: the public names of cutaway.fx and of its files.
"""

from __future__ import annotations

from typing import Any

from cutaway import fx
from cutaway.fx import code, graph, graph_module, interpreter, naming, node, proxy, tracer
from cutaway.fx.passes import shape_prop, split_module, subgraph_rewriter
from cutaway.torch_api.absent import absent


def _compatibility(is_backward_compatible: bool) -> Any:
    """A decorator that changes nothing: torch's promise about a function."""
    return lambda decorated: decorated


def _names(module: Any, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


PATHS: dict[str, dict[str, Any]] = {
    "torch.fx": {
        **{name: getattr(fx, name) for name in fx.__all__},
        "replace_pattern": subgraph_rewriter.replace_pattern,
        "ProxyableClassMeta": absent("torch.fx.ProxyableClassMeta"),
        "has_side_effect": lambda fn: fn,
    },
    "torch.fx.graph": {
        **_names(graph, "Graph"),
        "PythonCode": code.PythonCode,
        "_Namespace": naming.Namespace,
    },
    "torch.fx.graph_module": _names(
        graph_module, "GraphModule _USER_PRESERVED_ATTRIBUTES_KEY _CodeOnlyModule _copy_attr _assign_attr"
    ),
    "torch.fx.node": _names(node, "Argument Node Target map_aggregate map_arg"),
    "torch.fx.proxy": _names(
        proxy, "Attribute GraphAppendingTracer ParameterProxy Proxy TraceError TracerBase"
    ),
    "torch.fx.interpreter": _names(interpreter, "Interpreter Transformer"),
    "torch.fx._symbolic_trace": _names(tracer, "PH Tracer is_fx_tracing symbolic_trace wrap _assert_is_none"),
    "torch.fx._compatibility": {"compatibility": _compatibility},
    "torch.fx.immutable_collections": {"immutable_list": list, "immutable_dict": dict},
    "torch.fx.passes": {},
    "torch.fx.passes.shape_prop": _names(shape_prop, "ShapeProp TensorMetadata _extract_tensor_metadata"),
    "torch.fx.passes.split_module": {"split_module": split_module.split_module},
    "torch.fx.subgraph_rewriter": _names(subgraph_rewriter, "Match replace_pattern"),
}

__all__ = ["PATHS", "naming"]
