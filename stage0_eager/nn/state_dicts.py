"""state_dict and load_state_dict of a tree of modules: torch's protocol of hooks and of methods that a class overrides.

Input: a module. Each module saves and loads its own entries (`_save_to_state_dict`, `_load_from_state_dict`), then its
children do; hooks run before and after. Nothing is written to the module before every entry was found to fit, except by
a class that loads its entries itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor

EXTRA = "_extra_state"  # the key of what get_extra_state gives
# The hooks of a module, by the name of the attribute that has them once there is one.
SAVE_BEFORE, SAVE_AFTER = "_state_dict_pre_hooks", "_state_dict_hooks"
LOAD_BEFORE, LOAD_AFTER = "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"


_STAND_INS: list[Callable] = []  # Module's own get_extra_state and set_extra_state, which only raise


def stand_in(method: Callable) -> Callable:
    _STAND_INS.append(method)
    return method


class IncompatibleKeys(NamedTuple):
    """What load_state_dict did not find in the dict, and what it found no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def hooks_of(module: Any, kind: str) -> OrderedDict[int, Callable]:
    """The module's hooks of one kind, to add to or to call."""
    return module.__dict__.setdefault(kind, OrderedDict())


def _called(module: Any, kind: str) -> list[Callable]:
    return list(module.__dict__.get(kind, {}).values())


def entries(module: Any) -> Iterator[tuple[str, Any]]:
    """The module's own parameters and persistent buffers, without its children's."""
    hidden = module.__dict__.get("_non_persistent", ())
    for registry in ("_parameters", "_buffers"):
        for name, value in module.__dict__[registry].items():
            if value is not None and name not in hidden:
                yield name, value


# ---- saving --------------------------------------------------------------------------------------------------------


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Write the module's own entries. keep_vars: the parameters themselves instead of tensors off the tape."""
    for name, value in entries(module):
        destination[prefix + name] = value if keep_vars else value.detach()
    if _has_extra(module, "get_extra_state"):
        destination[prefix + EXTRA] = module.get_extra_state()


def save(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """Write the entries of the module and of those inside it; what an after-hook returns takes the dict's place."""
    metadata = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = metadata
    for before in _called(module, SAVE_BEFORE):
        before(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for after in _called(module, SAVE_AFTER):
        replaced = after(module, destination, prefix, metadata)
        if replaced is not None and getattr(after, "_may_replace", True):
            destination = replaced
        elif replaced is not None:
            raise RuntimeError("state_dict post-hook must return None")
    return destination


# ---- loading -------------------------------------------------------------------------------------------------------


def load_own(
    module: Any, state: Mapping[str, Any], prefix: str, metadata: dict[str, Any], strict: bool,
    missing: list[str], unexpected: list[str], errors: list[str],
) -> None:  # fmt: skip
    """Find the module's own entries under `prefix`, and add what is wrong to the three lists.

    metadata["writes"], if it is there, gets (own tensor, new tensor) to write later; else they are written now.
    """
    for before in _called(module, LOAD_BEFORE):
        before(state, prefix, metadata, strict, missing, unexpected, errors)
    writes: list[tuple[Tensor, Tensor]] = metadata.get("writes", [])
    for name, value in entries(module):
        key = prefix + name
        if key not in state:
            missing.append(key)
        elif not isinstance(state[key], Tensor):
            kind = type(state[key]).__name__
            errors.append(f"expected a tensor for {key}, received {kind}; save the state_dict of a module")
        elif state[key].shape != value.shape and not _one_for_none(state[key], value):
            shapes = f"checkpoint {tuple(state[key].shape)}, model {tuple(value.shape)}"
            errors.append(f"size mismatch for {key}: {shapes}")
        else:
            writes.append((value, state[key]))
    _load_extra(module, state, prefix + EXTRA, missing, unexpected)
    if strict:
        unexpected += _without_place(module, state, prefix)
    if "writes" not in metadata:
        write(writes, metadata.get("assign_to_params_buffers", False))


def _one_for_none(given: Tensor, own: Tensor) -> bool:
    """Older files have one element where a tensor without dimensions is now."""
    return own.ndim == 0 and given.shape == (1,)


def _has_extra(module: Any, method: str) -> bool:
    """Whether the class defines it, or inherits Module's stand-in."""
    return getattr(type(module), method) not in _STAND_INS


def _load_extra(module: Any, state: Any, key: str, missing: list[str], unexpected: list[str]) -> None:
    if _has_extra(module, "set_extra_state") or _has_extra(module, "get_extra_state"):
        if key in state:
            module.set_extra_state(state[key])
        else:
            missing.append(key)
    elif key in state:
        unexpected.append(key)


def _without_place(module: Any, state: Any, prefix: str) -> Iterator[str]:
    own = {name for name, _ in entries(module)}
    for key in state:
        if key.startswith(prefix) and key != prefix + EXTRA:
            first, *rest = key[len(prefix) :].split(".", 1)
            if first not in own and not (rest and first in module._modules):
                yield key


def load(module: Any, given: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """load_state_dict: see Module."""
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(given)}.")
    state: Any = OrderedDict(given)
    if hasattr(given, "_metadata"):
        state._metadata = given._metadata
    keys = IncompatibleKeys([], [])
    errors: list[str] = []
    writes: list[tuple[Tensor, Tensor]] = []
    versions = getattr(given, "_metadata", {})

    def into(module: Any, prefix: str) -> None:
        metadata = dict(versions.get(prefix[:-1], {}), writes=writes)
        if assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(state, prefix, metadata, True, *keys, errors)
        for name, child in module._modules.items():
            if child is not None:
                into(child, f"{prefix}{name}.")
        for after in _called(module, LOAD_AFTER):
            if after(module, keys) is not None:
                raise RuntimeError(
                    "a load_state_dict post-hook must return None; change its incompatible_keys in place"
                )

    with no_grad():
        into(module, "")
        missing, unexpected = keys
        problems = [*errors]
        if strict:
            problems += [f"missing keys: {missing}"] * bool(missing)
            problems += [f"unexpected keys: {unexpected}"] * bool(unexpected)
        if problems:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(module).__name__}: " + "; ".join(problems)
            )
        write(writes, assign)
    return keys


def write(pairs: list[tuple[Tensor, Tensor]], assign: bool) -> None:
    """Copy each second tensor into the first; assign: give the first the second's storage."""
    with no_grad():
        for own, new in pairs:
            new = new.reshape(own.shape)
            if assign:
                own._data = new._data
            else:
                own.copy_(new)
