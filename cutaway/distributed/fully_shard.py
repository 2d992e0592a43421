"""fully_shard: each rank keeps its part of every parameter, of its gradient and of the optimizer's state.

Input: a module, the same on every rank. A forward pass gathers each parameter whole; the backward gathers it again,
and gives each rank its part of the mean gradient. Compiled, gathers and reductions are collectives of the graph, which
the scheduler starts early (`distributed.prefetch`). (ZeRO: Rajbhandari et al., 2020. As parameters computed of shards,
which one graph holds: Zhang et al., "SimpleFSDP", 2024.)
"""

from __future__ import annotations

from typing import Any

from cutaway.distributed.agreement import agree
from cutaway.distributed.coalesced import from_rank_0
from cutaway.distributed.group import ProcessGroup, resolve
from stage0_eager import Tensor, nn, no_grad
from stage0_eager.functions.creation import zeros
from stage0_eager.functions.joining import cat
from stage0_eager.nn.utils import get_total_norm
from stage0_eager.table.core import core as c
from stage0_eager.transforms.func import with_tensors_of


class Sharded:
    """What a sharded module also is. `shapes`: parameter -> its whole shape; the parameter itself is this rank's part,
    flat, the last rank's padded with zeros. `own`: those that its forward gathers; sharded modules inside it gather
    theirs."""

    shapes: dict[str, tuple[int, ...]]
    own: tuple[str, ...]
    group: ProcessGroup

    def unsharded(self, name: str) -> Tensor:
        """The whole parameter, gathered. Its gradient is the mean over the ranks, in parts."""
        part = _parameter(self, name)
        shape = self.shapes[name]
        count = _count(shape)
        whole = c.all_gather(part, self.group.size(), "avg", self.group.name)
        return whole[:count].reshape(shape)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale this rank's parts of the gradients so that the norm of all of them together is at most max_norm.

        Returns the norm before. (torch.nn.utils.clip_grad_norm_ sees one rank's parts only.)
        """
        kind = float(norm_type)
        with no_grad():
            found = [p.grad for p in self.parameters() if p.grad is not None]  # type: ignore[attr-defined]
            mine: Any = get_total_norm(found, kind)
            if kind == float("inf"):
                total = c.all_reduce(mine, "max", self.group.name)
            else:
                total = c.all_reduce(mine**kind, "sum", self.group.name) ** (1.0 / kind)
            factor = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
            for gradient in found:
                gradient.mul_(factor.to(gradient.dtype))
        return total

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


def fully_shard(module: nn.Module, *, mesh: Any = None, process_group: Any = None, **speed: Any) -> nn.Module:
    """Shard every parameter of `module`, in place, and return it. Make the optimizer after this call.

    Call it on layers first and on the whole model last, as with torch: then a layer's parameters are gathered when that
    layer runs, and freed after it. process_group: the ranks that share (all, if None). Options for speed are accepted.
    Raises DistBackendError where the ranks' modules differ, RuntimeError where this one was sharded before.
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
    made.shapes, made.group = {}, group
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
                parts[id(parameter)] = nn.Parameter(shard(parameter.detach(), group), parameter.requires_grad)
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
                known[id(part)] = self.unsharded(name)
            whole[name] = known[id(part)]
        with with_tensors_of(self, whole):
            return plain.forward(self, *args, **kwargs)

    return forward


def _parameter(module: Any, name: str) -> Any:
    home, _, own = name.rpartition(".")
    return module.get_submodule(home)._parameters[own]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
