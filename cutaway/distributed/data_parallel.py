"""DistributedDataParallel: a module whose copies on all ranks stay equal, each trained on its own part of the batch.

Input: the module, the same on every rank. Its parameters are sent from rank 0 once; after each backward pass every rank
has the mean of all ranks' gradients, so equal optimizers take equal steps. Eager: by hooks (reducer.py). Compiled: by
collectives in the backward graph, or by a graph for each bucket and hooks (split_graphs.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.compiler import compile, disable
from cutaway.distributed.agreement import agree
from cutaway.distributed.buckets import BYTES, SMALL_BYTES, in_buckets
from cutaway.distributed.coalesced import from_rank_0
from cutaway.distributed.group import ProcessGroup, resolve
from cutaway.distributed.reducer import Reducer
from cutaway.distributed.split_graphs import follow, optimize_ddp
from stage0_eager import Tensor, is_grad_enabled, nn
from stage0_eager.table.core import core as c
from stage0_eager.transforms.func import functional_call
from stage0_eager.utils import pytree
from stage_contracts.controls import is_compiling

IGNORED = {"dim", "check_reduction", "gradient_as_bucket_view", "static_graph", "delay_all_reduce_named_params",
           "param_to_hook_all_reduce", "mixed_precision", "device_mesh", "skip_all_reduce_unused_params"}  # fmt: skip


class DistributedDataParallel(nn.Module):
    """Wrap `module`, then train as before; give each rank its own batches (DistributedSampler).

    bucket_cap_mb: how many megabytes of gradients travel in one call (25). find_unused_parameters: allow a forward pass
    that leaves parameters out, which costs a walk over the tape. broadcast_buffers: rank 0's buffers go to all ranks
    before each forward pass in training. Compiled, `distributed.optimize_ddp` says how gradients are averaged.
    Raises RuntimeError without a parameter that needs gradients, and DistBackendError where the ranks' modules differ.
    """

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        **speed: Any,
    ) -> None:
        super().__init__()
        unknown = speed.keys() - IGNORED
        if unknown:
            raise TypeError(f"DistributedDataParallel got an unexpected keyword argument {unknown.pop()!r}")
        self.module, self.broadcast_buffers = module, broadcast_buffers
        self.process_group = resolve(process_group)
        self.require_backward_grad_sync = True
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self._check_equal()
        if init_sync:
            self._from_rank_0([*module.parameters(), *module.buffers()])
        limit = BYTES if bucket_cap_mb is None else int(bucket_cap_mb * (1 << 20))
        buckets = in_buckets([p for _, p in named], limit, min(SMALL_BYTES, limit))
        self.reducer = Reducer(buckets, self.process_group, find_unused_parameters)
        self.reducer.names = {id(p): name for name, p in named}
        self.bucket_bytes, self.find_unused_parameters = limit, find_unused_parameters
        self.in_graph = not find_unused_parameters  # a graph has the same collectives on every rank
        self.unsynced = self.hooked = False
        follow(self.reducer.place, self.reducer)

    def _follow_gradients(self) -> None:
        """Hooks tell the reducer of each gradient, from the first eager forward pass on."""
        if not self.hooked:
            self.hooked = True
            for bucket in self.reducer.buckets:
                for parameter in bucket:
                    parameter.register_post_accumulate_grad_hook(self._gradient_is_there)

    def _check_equal(self) -> None:
        group = self.process_group
        if group.size() > 1:
            told = [f"{name} {p.dtype}{[*p.shape]}" for name, p in self.module.named_parameters()]
            agree(group.checks, f"DistributedDataParallel of {'; '.join(told)}", group.ranks, group.timeout)

    def _from_rank_0(self, tensors: list[Tensor]) -> None:
        from_rank_0(tensors, self.process_group)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_compiling():
            return super().__call__(*args, **kwargs)
        if self.in_graph and not self.unsynced and optimize_ddp() == "in_graph":
            return self._averaged_in_graph(args, kwargs)
        return self._compiled_inside(args, kwargs)

    @disable
    def _compiled_inside(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The module compiled by itself, on the default backend, and the hooks around it."""
        if "compiled" not in self.__dict__:
            self.__dict__["compiled"] = compile(self.module)  # no submodule: names and state_dict stay
        return self._hooked(self.__dict__["compiled"], args, kwargs)

    def _averaged_in_graph(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """The module on its own parameters, whose gradients are averaged where the backward makes them: captured."""
        if not (self.training and is_grad_enabled() and self.require_backward_grad_sync):
            return self.module(*args, **kwargs)
        if self.broadcast_buffers and self.process_group.size() > 1:
            self._from_rank_0(list(self.module.buffers()))
        name, limit = self.process_group.name, self.bucket_bytes
        averaged = {
            key: c.average_gradient(p, limit, name)
            for key, p in self.module.named_parameters()
            if p.requires_grad
        }
        return functional_call(self.module, averaged, args, kwargs)

    @disable(recursive=False)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._hooked(self.module, args, kwargs)

    def _hooked(self, module: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """One pass whose gradients are averaged by hooks, from the end of the backward on."""
        self._follow_gradients()
        training = self.training and is_grad_enabled() and self.require_backward_grad_sync
        if training and self.broadcast_buffers and self.process_group.size() > 1:
            self._from_rank_0(list(self.module.buffers()))
        output = module(*args, **kwargs)
        if training:
            self.unsynced = False
            leaves = pytree.leaves_of(output) if self.reducer.find_unused else ()
            self.reducer.prepare(t for t in leaves if isinstance(t, Tensor))
        return output

    @disable
    def _gradient_is_there(self, parameter: Tensor) -> None:
        if self.require_backward_grad_sync:
            self.reducer.ready(parameter)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """In this block gradients add up on each rank alone. The first backward pass after it averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        self.unsynced = True  # what adds up here is averaged by the next eager pass
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Let `hook(state, bucket)` do a bucket's communication. What it returns has `wait()`: a Tensor, or None when
        the result is in `bucket.buffer()`."""
        self.reducer.state, self.reducer.hook = state, hook
        self.in_graph = False
