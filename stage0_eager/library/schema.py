"""Schemas of custom operators: from a function's annotations, and from a text such as "(Tensor x, int n=2) -> Tensor".

Input: a function, or a schema's text. Terms and messages are those of torch.library (infer_schema). A schema here has
only what other code needs: the parameters in order, their kinds, which are written to, and what is returned.
"""

from __future__ import annotations

import ast
import inspect
import numbers
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType

# Python's annotation -> the kind in the schema
_PLAIN: dict[Any, str] = {
    Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", numbers.Number: "Scalar",
    DType: "ScalarType", Device: "Device",
}  # fmt: skip
_LISTED = (Tensor, int, float, bool, numbers.Number)
_LISTS = (list, Sequence)
_TYPES: dict[Any, str] = {
    **_PLAIN,
    **{typing.Optional[t]: f"{word}?" for t, word in _PLAIN.items()},  # noqa: UP045
    **{kind[t]: f"{_PLAIN[t]}[]" for t in _LISTED for kind in _LISTS},
    **{typing.List[t]: f"{_PLAIN[t]}[]" for t in _LISTED},  # type: ignore[valid-type]  # noqa: UP006
    **{typing.Optional[kind[t]]: f"{_PLAIN[t]}[]?" for t in _LISTED for kind in _LISTS},  # noqa: UP045
}
_RETURNS: dict[Any, str] = {
    Tensor: "Tensor", list[Tensor]: "Tensor[]", typing.List[Tensor]: "Tensor[]",  # noqa: UP006
    int: "SymInt", float: "float", bool: "bool", numbers.Number: "Scalar",
}  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """Parameters and their kinds ("Tensor", "Tensor[]", "SymInt", ...); returns: None, a kind, or a tuple of kinds."""

    text: str
    params: tuple[str, ...]
    kinds: tuple[str, ...]
    mutates: tuple[str, ...]
    returns: Any

    @property
    def tensors(self) -> tuple[str, ...]:
        """The parameters that are tensors, or lists of tensors."""
        return tuple(p for p, kind in zip(self.params, self.kinds, strict=True) if kind.startswith("Tensor"))


def infer_schema(
    function: Callable, /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The text of the schema of a function with annotations, as torch.library.infer_schema returns it.

    Raises ValueError for a parameter without an annotation or with an unsupported type, and for a name in
    `mutates_args` that is not one of its tensors.
    """
    return (op_name or "") + schema_of(function, mutates_args).text


def schema_of(function: Callable, mutates_args: str | Iterable[str]) -> Schema:
    """The Schema of a function. Raises ValueError as infer_schema does."""
    signature = inspect.signature(function)

    def refuse(what: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
            "'unknown'."
        )
    types = _annotations(function, refuse)
    words: list[str] = []
    kinds: list[str] = []
    mutates: list[str] = []
    for i, (name, p) in enumerate(signature.parameters.items()):
        kind = _kind(p, types, refuse)
        if p.kind is p.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        shown = kind
        if _mutated(name, kind, mutates_args, refuse):
            mutates.append(name)
            shown = f"Tensor(a{i}!){kind[len('Tensor') :]}"
        kinds.append(kind)
        words.append(f"{shown} {name}" + ("" if p.default is p.empty else f"={_default(p.default)}"))
    unseen = set() if mutates_args == "unknown" else set(mutates_args) - set(signature.parameters)
    if unseen:
        refuse(
            f"{unseen} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    returns, text = _returned(types, signature, refuse)
    return Schema(
        f"({', '.join(words)}) -> {text}", tuple(signature.parameters), tuple(kinds), tuple(mutates), returns
    )


def _kind(p: inspect.Parameter, types: dict[str, Any], refuse: Callable[[str], Any]) -> str:
    """The kind of a parameter."""
    if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
        refuse("We do not support positional-only args, varargs, or varkwargs.")
    if p.annotation is p.empty:
        refuse(f"Parameter {p.name} must have a type annotation.")
    kind = _TYPES.get(types[p.name])
    if kind is None:
        refuse(
            f"Parameter {p.name} has unsupported type {p.annotation}. The valid types are: {_shown(_TYPES)}."
        )
    assert kind is not None
    return kind


def _mutated(name: str, kind: str, mutates: str | Iterable[str], refuse: Callable[[str], Any]) -> bool:
    """Whether the function may write to this argument."""
    tensors = kind.startswith("Tensor")
    if mutates == "unknown":
        return tensors
    named = name in mutates
    if named and not tensors:
        refuse(
            f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
        )
    return named


def _annotations(function: Callable, refuse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        return refuse(f"Unsupported type annotation. It is not a type. ({error})")


def _returned(
    types: dict[str, Any], signature: inspect.Signature, refuse: Callable[[str], Any]
) -> tuple[Any, str]:
    """The returned values, as the Schema's field and as text."""
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    given = types["return"]
    if given in (None, type(None)):
        return None, "()"
    parts = typing.get_args(given) if typing.get_origin(given) is tuple else (given,)
    if any(part not in _RETURNS for part in parts):
        refuse(f"Return has unsupported type {given}. The valid types are: {_shown(_RETURNS)}.")
    found = tuple(_RETURNS[part] for part in parts)
    if typing.get_origin(given) is tuple:
        return found, f"({', '.join(found)})" if len(found) > 1 else f"(({found[0]}))"
    return found[0], found[0]


def _shown(types: dict[Any, str]) -> str:
    return ", ".join(t.__name__ if isinstance(t, type) and not typing.get_args(t) else str(t) for t in types)


def _default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, (str, Device)) else str(value)


# ---- from text -------------------------------------------------------------------------------------------------------

_SCHEMA = re.compile(r"\s*(?P<name>[\w:.]*)\s*\((?P<params>.*)\)\s*->\s*(?P<returns>.*?)\s*$", re.S)
_PARAM = re.compile(
    r"(?P<kind>\w+)(?:\((?P<alias>[^)]*)\))?(?P<more>(?:\[\d*\])?\??)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.*))?$"
)
_WORDS = {"int": "SymInt", "SymInt": "SymInt", "Scalar": "Scalar"}


def parse_schema(text: str) -> tuple[Schema, Callable]:
    """The Schema of a text, and a function with its parameters, which raises until a kernel is registered.

    Raises ValueError for a text that is not a schema.
    """
    match = _SCHEMA.match(text)
    if match is None:
        raise ValueError(f'expected a schema such as "(Tensor x, int n=2) -> Tensor", got {text!r}')
    params, kinds, mutates, words = [], [], [], []
    defaults: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in match["params"].split(","))):
        if part == "*":
            words.append("*")
            continue
        found = _PARAM.match(part)
        if found is None:
            raise ValueError(
                f"cannot read {part!r} in the schema {text!r}; expected a type, a name and, if you like, a default"
            )
        name = found["name"]
        params.append(name)
        kinds.append(_WORDS.get(found["kind"], found["kind"]) + re.sub(r"\d", "", found["more"]))
        if found["alias"] and "!" in found["alias"]:
            mutates.append(name)
        if found["default"] is not None:
            defaults[name] = _literal(found["default"])
        words.append(name + (f"=defaults[{name!r}]" if name in defaults else ""))
    names: dict[str, Any] = {"defaults": defaults}
    exec(f"def declared({', '.join(words)}): raise NotImplementedError('no kernel')", names)
    return Schema(
        text, tuple(params), tuple(kinds), tuple(mutates), _parsed_returns(match["returns"])
    ), names["declared"]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except ValueError:
        return text.strip()


def _parsed_returns(text: str) -> Any:
    if text == "()":
        return None
    if text.startswith("("):
        return tuple(re.sub(r"\([^)]*\)", "", part).strip() for part in text[1:-1].split(","))
    return re.sub(r"\([^)]*\)", "", text).strip()
