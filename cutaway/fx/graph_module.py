"""fx.GraphModule: a Module whose forward is generated from its graph.

Input: a graph, and the module (or dict) that has what the graph's get_attr and call_module nodes name.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from cutaway.fx.code import PythonCode, function_of
from cutaway.fx.graph import Graph
from stage0_eager.nn import Module, Parameter
from stage0_eager.tensor import Tensor
from stage_contracts import graph_module as captured

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


class GraphModule(Module, captured.GraphModule):
    """A call runs the graph's code. After you edit `graph`, call `recompile()`."""

    _of_one: bool = False  # whether this class is that of a single module, which has a forward of its own

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        base = next(c for c in cls.__mro__ if not c.__dict__.get("_of_one"))
        return object.__new__(type(base.__name__, (base,), {"_of_one": True, "__module__": base.__module__}))

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, str(node.target))
            self.meta.update(root.__dict__.get("meta", {}))
            for name, value in self.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
                setattr(self, name, value)
        elif isinstance(root, dict):
            self._take(root, graph)
        else:
            raise RuntimeError(
                f"GraphModule expects a Module or a dict as root, but got {type(root).__name__}"
            )
        self.graph = graph

    def _take(self, root: dict[str, Any], graph: Graph) -> None:
        for target in sorted({str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")}):
            if target not in root:
                raise RuntimeError(
                    f"Node with target {target} was in the graph but no such attribute was provided to the GraphModule"
                )
            _assign_attr(root[target], self, target)

    # ---- the graph and its code --------------------------------------------------------------------------------

    @property  # type: ignore[override]
    def graph(self) -> Graph:
        return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        return self.__dict__["_code"]

    def recompile(self) -> PythonCode:  # type: ignore[override]
        """Call this after you edit `graph`: `code` and the next call are those of the new graph."""
        code = self.graph.python_code("self")
        self.__dict__["_code"] = code.src
        type(self).forward = function_of(code)  # type: ignore[method-assign]
        return code

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "graph":
            type(self).graph.fset(self, value)  # type: ignore[attr-defined]
        else:
            super().__setattr__(name, value)

    __call__ = Module.__call__
    __repr__ = Module.__repr__

    def print_readable(self, print_output: bool = True, *unused: Any, **options: Any) -> str:
        """Print the code with the types of values and the user's lines. Returns the text."""
        text = f"class {type(self).__name__}(Module):\n" + _indented(self.graph.python_code(verbose=True).src)
        parts = [text]
        for name, child in {**self._modules, **self.__dict__}.items():
            if isinstance(child, captured.GraphModule):
                parts.append(f"# self.{name}\n{child.print_readable(print_output=False)}")
        text = "\n".join(parts)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([Module.__repr__(self), self.code, hint])

    # ---- its submodules ----------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add `m` at a dotted path. Modules on the way are made. False if something else is in the way."""
        *path, last = target.split(".")
        place: Any = self
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, Module())
            place = getattr(place, part)
            if not isinstance(place, Module):
                return False
        place.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule at a dotted path. False if there is none."""
        path, _, last = target.rpartition(".")
        try:
            place = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(place._modules.get(last), Module):
            return False
        delattr(place, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that no node of the graph calls or reads from."""
        used = set()
        for node in self.graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = str(node.target).split(".")
                used |= {".".join(parts[: i + 1]) for i in range(len(parts))}
                if node.op == "call_module":
                    inner = self.get_submodule(str(node.target))
                    used |= {f"{node.target}.{name}" for name, _ in inner.named_modules() if name}
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies ------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: Any) -> GraphModule:
        holder = Module()
        memo[id(self)] = holder
        kept = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        for name, value in kept.items():
            object.__setattr__(holder, name, copy.deepcopy(value, memo))
        return self._again(holder)

    def __copy__(self) -> GraphModule:
        holder = Module()
        for name, value in self.__dict__.items():
            object.__setattr__(holder, name, value)
        return self._again(holder)

    def _again(self, holder: Module) -> GraphModule:
        base = next(c for c in type(self).__mro__ if not c.__dict__.get("_of_one"))
        twin = GraphModule.__new__(base)
        for name, value in holder.__dict__.items():
            if name not in ("_graph", "_code"):
                object.__setattr__(twin, name, value)
        type(twin).__name__ = type(self).__name__
        twin.graph = self.graph.copy()
        return twin

    def __reduce__(self) -> tuple:
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        base = next(c for c in type(self).__mro__ if not c.__dict__.get("_of_one"))
        return _loaded, (base, type(self).__name__, state, self.graph)

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        raise NotImplementedError(
            "GraphModule.to_folder is not supported; save the module with torch.save, or its text with .code"
        )


def _loaded(base: type, name: str, state: dict[str, Any], graph: Graph) -> GraphModule:
    twin = GraphModule.__new__(base)
    for key, value in state.items():
        object.__setattr__(twin, key, value)
    type(twin).__name__ = name
    twin.graph = graph
    return twin


def _indented(text: str) -> str:
    return (
        "".join(f"    {line}" if line.strip() else "\n" for line in text.strip("\n ").splitlines(True)) + "\n"
    )


def _place_of(to_module: Module, target: str) -> tuple[Module, str]:
    *path, last = target.split(".")
    for part in path:
        if not hasattr(to_module, part):
            to_module.add_module(part, Module())
        to_module = getattr(to_module, part)
    return to_module, last


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give to_module what from_module has at a dotted path; the same object."""
    *path, last = target.split(".")
    place = to_module
    for part in path:
        from_module = getattr(from_module, part)
        if getattr(place, part, None) is from_module:
            return  # the whole of it is there already
        if not hasattr(place, part):
            place.add_module(part, Module())
        place = getattr(place, part)
    _put(place, last, getattr(from_module, last))


def _assign_attr(value: Any, to_module: Module, target: str) -> None:
    place, last = _place_of(to_module, target)
    _put(place, last, value)


def _put(place: Module, name: str, value: Any) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        place.register_buffer(name, value)
    else:
        setattr(place, name, value)


class _CodeOnlyModule(Module):
    """For isinstance: torch's module of saved code alone, which is not made here."""
