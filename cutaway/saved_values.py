"""Values of a compiled function as JSON, without pickle: sources, guards, constants, and objects by the name they have.

Input: guards, residual globals, defaults and cells of one captured function. What a file cannot say raises NotSayable,
which names it. `Writer` and `Reader` keep what has an identity: tensors, and the objects behind `registered(number)`.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cutaway.repro import laid_out
from cutaway.saved_places import NotThere, code_digest, place_of, the_object_at
from stage0_eager import arrays
from stage0_eager.tensor import Tensor
from stage_contracts import source as sources
from stage_contracts.array_guards import ArrayMeta
from stage_contracts.class_guards import ClassFacts
from stage_contracts.controls import register, registered
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType
from stage_contracts.guards import Guard, TensorOf
from stage_contracts.guards_open import OpenMeta
from stage_contracts.memory_format import FORMATS, MemoryFormat
from stage_contracts.origin import Origin
from stage_contracts.source import GlobalSource, Source
from stage_contracts.tensor_meta import TensorMeta, parse_meta


class NotSayable(RuntimeError):
    """A value that a file cannot hold: neither a literal, nor an array, nor an object that can be imported."""


# Dataclasses that are written field by field.
RECORDS: dict[str, type] = {
    c.__name__: c
    for c in (
        *(c for c in vars(sources).values() if isinstance(c, type) and issubclass(c, Source)),
        Guard,
        Origin,
        TensorOf,
        OpenMeta,
        ArrayMeta,
    )
}
NAMED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)  # what an import finds first
METHODS = (types.MethodType, types.BuiltinMethodType)
_NUMBER = re.compile(r"\bregistered\((\d+)\)")
_INDEX = re.compile(r"\bregistered\(#(\d+)\)")


@dataclass
class Writer:
    """Writes values. `found`: objects that live behind a global of the function, by id, with the source that leads to
    them: where the file is loaded, the object is the one that is there then."""

    module: str
    found: Mapping[int, Source] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    objects: list[Any] = field(
        default_factory=list
    )  # behind `registered(number)`, in the order of their first use
    numbers: dict[int, int] = field(default_factory=dict)

    def write(self, value: Any) -> Any:
        """A value as JSON. Raises NotSayable."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is list:
            return [self.write(item) for item in value]
        if type(value).__name__ in RECORDS and type(value) is RECORDS[type(value).__name__]:
            return {type(value).__name__: self._fields(value)}
        for word, (kind, write, _) in WORDS.items():
            if type(value) is kind:
                return {word: write(value, self)}
        if isinstance(value, np.generic):
            return {"numpy": [value.dtype.char, value.tobytes().hex()]}
        if isinstance(value, np.dtype):
            return {"numpy_dtype": value.char}
        if isinstance(value, enum.Enum):
            return {"enum": [self.write(type(value)), value.name]}
        return self._named(value)

    def _fields(self, record: Any) -> dict[str, Any]:
        fields = [
            f for f in dataclasses.fields(record) if f.repr
        ]  # the others are only kept from call to call
        values = {f.name: getattr(record, f.name) for f in fields}
        if isinstance(record, Source) and "number" in values:
            values["number"] = self.index(values["number"])
        if isinstance(record, sources.ExpressionSource):
            values["text"] = self.text(values["text"])
        return {name: self.write(value) for name, value in values.items()}

    def text(self, code: str) -> str:
        """Python text, with the places of registered objects for their numbers, which another process lacks."""
        return _NUMBER.sub(lambda m: f"registered(#{self.index(int(m[1]))})", code)

    def index(self, number: int) -> int:
        """The place of a registered object among `objects`."""
        if number not in self.numbers:
            self.numbers[number] = len(self.objects)
            self.objects.append(registered(number))
        return self.numbers[number]

    def _named(self, value: Any) -> Any:
        """An object by its name, or by the global that leads to it. A function with a digest of its code: if that
        changes, the file is out of date."""
        place = place_of(value) if isinstance(value, NAMED) or id(value) not in self.found else None
        if place is not None:
            return {"object": [*place, code_digest(value)]}
        if id(value) in self.found:
            return {"found": [self.write(self.found[id(value)]), code_digest(value)]}
        if isinstance(value, METHODS) and not isinstance(value.__self__, types.ModuleType | None):
            return {"method": [self.write(value.__self__), value.__name__]}
        raise NotSayable(_shown(value))

    def guard(self, guard: Guard) -> Any:
        """A guard. The identity of a number or a text means its value: another process has another object of it."""
        expected = guard.expected
        if guard.kind == "IDENTITY" and type(expected) in (int, float, str, bytes, complex, tuple):
            guard = replace(guard, kind="EQUALS")
        if guard.kind == "SHAPE":
            guard = replace(guard, expected=self.text(str(expected)))
        try:
            return self.write(guard)
        except NotSayable as error:
            where = f", at {guard.origin.describe()}" if guard.origin else ""
            raise NotSayable(f"{error}, which the guard on {guard.source} expects{where}") from None


@dataclass
class Reader:
    """Reads what a Writer wrote. `globals`: the namespace in which the function's own globals are looked up."""

    module: str
    tensors: list[Tensor]
    written_objects: list[Any]
    globals: dict[str, Any] = field(default_factory=dict)
    _objects: dict[int, Any] = field(default_factory=dict)

    def read(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.read(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((word, inner),) = value.items()
        if word in RECORDS:
            fields = {name: self.read(v) for name, v in inner.items()}
            return RECORDS[word](**self._own(RECORDS[word], fields))
        return READS[word](inner, self)

    def _own(self, kind: type, fields: dict[str, Any]) -> dict[str, Any]:
        if issubclass(kind, Source) and "number" in fields:
            fields["number"] = register(self.object(fields["number"]))
        if kind is sources.ExpressionSource:
            fields["text"] = self.text(fields["text"])
        if kind is Guard and fields["kind"] == "SHAPE":
            fields["expected"] = self.text(fields["expected"])
        return fields

    def text(self, code: str) -> str:
        return _INDEX.sub(lambda m: f"registered({register(self.object(int(m[1])))})", code)

    def object(self, index: int) -> Any:
        """The object that was registered; this reader keeps it alive."""
        if index not in self._objects:
            self._objects[index] = self.read(self.written_objects[index])
        return self._objects[index]

    def named(self, module: str, name: str, digest: str) -> Any:
        own = self.globals if module == self.module else None
        return _same_code(the_object_at(module, name, own), digest, f"{module}.{name}")

    def found(self, source: Source, digest: str) -> Any:
        """What is behind a global now."""
        try:
            value = eval(source.expression(), {"G": self.globals})
        except (AttributeError, LookupError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise NotThere(f"the function reads {source}, which is not there ({problem})") from None
        return _same_code(value, digest, str(source))


def _same_code(value: Any, digest: str, name: str) -> Any:
    if code_digest(value) != digest:
        raise NotThere(f"{name} has other code than when the function was saved; save it again")
    return value


def global_root(source: Any) -> bool:
    """Whether a source leads from a global, by attributes and items alone."""
    while isinstance(source, (sources.AttrSource, sources.ItemSource)):
        source = source.base
    return isinstance(source, GlobalSource)


# ---- the words ---------------------------------------------------------------------------------------------------


def _write_tensor(value: Tensor, writer: Writer) -> int:
    for index, known in enumerate(writer.tensors):
        if known is value:
            return index
    writer.tensors.append(value)
    return len(writer.tensors) - 1


def tensor_record(value: Tensor) -> tuple[dict[str, Any], bytes]:
    """A tensor as JSON, and its numbers."""
    numbers = np.ascontiguousarray(arrays.move(value._real("save_compiled_function()"), arrays.CPU))
    meta = str(value.detach().meta)
    return {"type": meta, "requires_grad": value.requires_grad}, numbers.tobytes()


def tensor_of(record: Mapping[str, Any], data: bytes) -> Tensor:
    meta = parse_meta(record["type"])
    numbers = np.frombuffer(data, meta.dtype.numpy).reshape(meta.shape).copy()
    value = Tensor(arrays.move(numbers, meta.device))
    if tuple(value.stride()) != tuple(meta.strides):
        value = laid_out(value, meta.strides)
    return value.requires_grad_() if record["requires_grad"] else value


def _write_facts(facts: ClassFacts, writer: Writer) -> Any:
    rows = [[writer.write(base), name, code_digest(value)] for base, name, value in facts.members]
    return {
        "names": list(facts.names),
        "plain": list(facts.plain),
        "bases": [writer.write(base) for base in facts.bases],
        "lacking": [[writer.write(base), name] for base, name in facts.lacking],
        "members": rows,
        "kinds": [[writer.write(base), name, writer.write(kind)] for base, name, kind in facts.kinds],
    }


def _read_facts(record: Mapping[str, Any], reader: Reader) -> ClassFacts:
    bases = tuple(map(reader.read, record["bases"]))
    if bases[0].__mro__ != bases:
        raise NotThere(f"the class {bases[0].__qualname__} has other bases than when the function was saved")

    def member(base: type, name: str, digest: str) -> Any:
        if name not in vars(base) or code_digest(vars(base)[name]) != digest:
            raise NotThere(f"{base.__qualname__}.{name} is not what it was when the function was saved")
        return vars(base)[name]

    members = [(reader.read(base), name, digest) for base, name, digest in record["members"]]
    return ClassFacts(
        tuple(record["names"]),
        tuple(record["plain"]),
        bases[0].__mro__,
        tuple((reader.read(base), name) for base, name in record["lacking"]),
        tuple((base, name, member(base, name, digest)) for base, name, digest in members),
        tuple((reader.read(base), name, reader.read(kind)) for base, name, kind in record["kinds"]),
    )


def _row(
    kind: type, write: Callable[[Any, Writer], Any], read: Callable[[Any, Reader], Any]
) -> tuple[type, Callable[[Any, Writer], Any], Callable[[Any, Reader], Any]]:
    return kind, write, read


def _several(kind: Callable[[Any], Any]) -> Any:
    return _row(
        kind,  # type: ignore[arg-type]
        lambda value, writer: [writer.write(item) for item in value],
        lambda items, reader: kind(map(reader.read, items)),
    )


# word -> (exact type, how it is written, how it is read)
WORDS = {
    "float": _row(float, lambda v, w: v.hex(), lambda t, r: float.fromhex(t)),
    "complex": _row(complex, lambda v, w: [v.real.hex(), v.imag.hex()], lambda p, r: complex(*map(float.fromhex, p))),
    "bytes": _row(bytes, lambda v, w: v.hex(), lambda t, r: bytes.fromhex(t)),
    "tuple": _several(tuple),
    "set": _several(set),
    "frozenset": _several(frozenset),
    "dict": _row(
        dict, lambda v, w: [[w.write(k), w.write(i)] for k, i in v.items()],
        lambda rows, r: {r.read(k): r.read(i) for k, i in rows}),
    "range": _row(range, lambda v, w: [v.start, v.stop, v.step], lambda p, r: range(*p)),
    "slice": _row(
        slice, lambda v, w: [w.write(p) for p in (v.start, v.stop, v.step)],
        lambda p, r: slice(*map(r.read, p))),
    "dtype": _row(DType, lambda v, w: v.name, lambda t, r: DTYPES[t]),
    "device": _row(Device, lambda v, w: str(v), lambda t, r: device_of(t)),
    "layout": _row(MemoryFormat, lambda v, w: v.name, lambda t, r: FORMATS[t]),
    "meta": _row(TensorMeta, lambda v, w: str(v), lambda t, r: parse_meta(t)),
    "tensor": _row(Tensor, _write_tensor, lambda index, r: r.tensors[index]),
    "class": _row(ClassFacts, _write_facts, _read_facts),
}  # fmt: skip
READS: dict[str, Callable[[Any, Reader], Any]] = {
    **{word: read for word, (_, _, read) in WORDS.items()},
    "numpy": lambda p, r: np.frombuffer(bytes.fromhex(p[1]), np.dtype(p[0]))[0],
    "numpy_dtype": lambda t, r: np.dtype(t),
    "enum": lambda p, r: r.read(p[0])[p[1]],
    "found": lambda p, r: r.found(r.read(p[0]), p[1]),
    "method": lambda p, r: getattr(r.read(p[0]), p[1]),
    "object": lambda p, r: r.named(*p),
}


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return (
        f"{type(value).__name__} {name}"
        if name
        else f"an object of {type(value).__module__}.{type(value).__qualname__}"
    )
