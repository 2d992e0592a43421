"""fully_shard: each rank keeps its part of every parameter, of its gradient and of the optimizer's state.

Input: a module, the same on every rank. A forward pass gathers each parameter whole; the backward gathers it again,
and gives each rank its part of the mean gradient. Compiled, gathers and reductions are collectives of the graph, which
the scheduler starts early (`distributed.prefetch`). (ZeRO: Rajbhandari et al., 2020. As parameters computed of shards,
which one graph holds: Zhang et al., "SimpleFSDP", 2024.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutaway.distributed.agreement import agree
from cutaway.distributed.coalesced import from_rank_0
from cutaway.distributed.group import ProcessGroup, resolve
from stage0_eager import Tensor, nn, no_grad
from stage0_eager.functions.creation import zeros
from stage0_eager.functions.joining import cat
from stage0_eager.nn.utils import clip_grad_norm_
from stage0_eager.table.core import core as c
from stage0_eager.transforms.func import with_tensors_of
from stage0_eager.utils import pytree
from stage_contracts.dtype import DType


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a sharded module computes; None: as it is. Parts, and the optimizer's state, stay as they are.

    param_dtype: parameters are gathered in it. reduce_dtype: gradients are reduced in it (param_dtype, if None).
    output_dtype: of what the forward returns. cast_forward_inputs: to param_dtype. Only floating tensors are cast.
    """

    param_dtype: DType | None = None
    reduce_dtype: DType | None = None
    output_dtype: DType | None = None
    cast_forward_inputs: bool = True


AS_IT_IS = MixedPrecisionPolicy()


class Sharded:
    """What a sharded module also is. `shapes`: parameter -> its whole shape; the parameter itself is this rank's part,
    flat, the last rank's padded with zeros. `own`: those that its forward gathers; sharded modules inside it gather
    theirs."""

    shapes: dict[str, tuple[int, ...]]
    own: tuple[str, ...]
    group: ProcessGroup
    policy: MixedPrecisionPolicy

    def unsharded(self, name: str, policy: MixedPrecisionPolicy = AS_IT_IS) -> Tensor:
        """The whole parameter, gathered. Its gradient is the mean over the ranks, in parts."""
        part = _parameter(self, name)
        shape = self.shapes[name]
        count = _count(shape)
        wide = policy.reduce_dtype or policy.param_dtype or part.dtype
        kind = policy.param_dtype or part.dtype
        how = "avg" if wide is kind else f"avg in {wide.name}"
        if not (part.dtype is kind is wide):
            part = c.cast(part, kind)  # its derivative brings what was reduced back to the part's dtype
        whole = c.all_gather(part, self.group.size(), how, self.group.name)
        return whole[:count].reshape(shape)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """torch.nn.utils.clip_grad_norm_ of this module's parameters."""
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)  # type: ignore[attr-defined]

    def full_state_dict(self) -> dict[str, Tensor]:
        """Every parameter and buffer whole, on every rank: a checkpoint for any number of ranks."""
        with no_grad():
            found = {name: value.detach() for name, value in self.state_dict().items()}  # type: ignore[attr-defined]
            return {
                n: self.unsharded(n).detach() if n in self.shapes else value for n, value in found.items()
            }

    def load_full_state_dict(self, values: dict[str, Tensor]) -> None:
        """Take this rank's part of each whole parameter. Raises KeyError or ValueError where names or shapes differ."""
        with no_grad():
            for name, shape in self.shapes.items():
                if tuple(values[name].shape) != shape:
                    raise ValueError(
                        f"{name} has the shape {tuple(values[name].shape)}, but the module has {shape}"
                    )
                _parameter(self, name).copy_(shard(values[name], self.group))
            for name, buffer in self.named_buffers():  # type: ignore[attr-defined]
                if name in values:
                    buffer.copy_(values[name])


def fully_shard(
    module: nn.Module,
    *,
    mesh: Any = None,
    process_group: Any = None,
    mp_policy: MixedPrecisionPolicy = AS_IT_IS,
    **speed: Any,
) -> nn.Module:
    """Shard every parameter of `module`, in place, and return it. Make the optimizer after this call.

    Call it on layers first and on the whole model last, as with torch: then a layer's parameters are gathered when that
    layer runs, and freed after it. process_group: the ranks that share (all, if None). mp_policy: for the parameters
    that this call shards. Options for speed are accepted. Raises DistBackendError where the ranks' modules differ,
    RuntimeError where this one was sharded before.
    """
    group = resolve(process_group)
    if isinstance(module, Sharded):
        raise RuntimeError(
            "this module is sharded already; call fully_shard once on each module, the whole model last"
        )
    inner = {name: child for name, child in module.named_modules() if name and isinstance(child, Sharded)}
    parts: dict[int, nn.Parameter] = {id(p): p for child in inner.values() for p in child.parameters()}
    told = [f"{name} {p.dtype}{[*p.shape]}" for name, p in module.named_parameters()]
    if group.size() > 1:
        agree(group.checks, f"fully_shard of {'; '.join(told)}", group.ranks, group.timeout)
        from_rank_0([*(p for p in module.parameters() if id(p) not in parts), *module.buffers()], group)
    plain = type(module)
    module.__class__ = type(f"FSDP{plain.__name__}", (Sharded, plain), {"forward": _forward_of(plain)})
    made: Any = module
    made.shapes, made.group, made.policy = {}, group, mp_policy
    known = {f"{name}.{key}": shape for name, child in inner.items() for key, shape in child.shapes.items()}
    own = []
    for name, parameter in list(
        module.named_parameters(remove_duplicate=False)
    ):  # a tied parameter stays one
        made.shapes[name] = known.get(name, tuple(parameter.shape))
        if name in known:
            continue
        own.append(name)
        if id(parameter) not in parts:
            with no_grad():
                part = nn.Parameter(shard(parameter.detach(), group), parameter.requires_grad)
                part.shard_group = group.name  # whoever adds up its elements asks for it
                parts[id(parameter)] = part
        home, _, last = name.rpartition(".")
        setattr(module.get_submodule(home), last, parts[id(parameter)])
    made.own = tuple(own)
    return module


def shard(whole: Tensor, group: ProcessGroup) -> Tensor:
    """This rank's part of a tensor, flat: all ranks' parts have one size."""
    size, count = group.size(), whole.numel()
    each = -(-count // size)
    flat = whole.reshape(-1)
    if each * size > count:
        flat = cat([flat, zeros(each * size - count, dtype=whole.dtype, device=whole.device)])
    return flat[group.rank * each : (group.rank + 1) * each].clone()


def _forward_of(plain: Any) -> Any:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        known: dict[int, Tensor] = {}
        whole = {}
        for name in self.own:
            part = _parameter(self, name)
            if id(part) not in known:
                known[id(part)] = self.unsharded(name, self.policy)
            whole[name] = known[id(part)]
        policy = self.policy
        if policy.param_dtype is not None and policy.cast_forward_inputs:
            args, kwargs = _cast(args, policy.param_dtype), _cast(kwargs, policy.param_dtype)
        with with_tensors_of(self, whole):
            found = plain.forward(self, *args, **kwargs)
        return found if policy.output_dtype is None else _cast(found, policy.output_dtype)

    return forward


def _cast(values: Any, dtype: DType) -> Any:
    """The same, with every floating tensor in it in this dtype."""
    return pytree.mapped(
        lambda x: x.to(dtype) if isinstance(x, Tensor) and x.dtype.is_floating_point else x, values
    )


def _parameter(module: Any, name: str) -> Any:
    home, _, own = name.rpartition(".")
    return module.get_submodule(home)._parameters[own]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
