"""DistributedDataParallel: a module whose copies on all ranks stay equal, each trained on its own part of the batch.

Input: the module, the same on every rank. Its parameters are sent from rank 0 once; after each backward pass every rank
has the mean of all ranks' gradients (reducer.py), so equal optimizers take equal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.compiler import disable
from cutaway.distributed.agreement import agree
from cutaway.distributed.buckets import BYTES, FIRST_BYTES, in_buckets
from cutaway.distributed.collectives import broadcast
from cutaway.distributed.group import ProcessGroup, resolve
from cutaway.distributed.reducer import Reducer
from stage0_eager import Tensor, is_grad_enabled, nn
from stage0_eager.utils import pytree

IGNORED = {"dim", "check_reduction", "gradient_as_bucket_view", "static_graph", "delay_all_reduce_named_params",
           "param_to_hook_all_reduce", "mixed_precision", "device_mesh", "skip_all_reduce_unused_params"}  # fmt: skip


class DistributedDataParallel(nn.Module):
    """Wrap `module`, then train as before; give each rank its own batches (DistributedSampler).

    bucket_cap_mb: how many megabytes of gradients travel in one call (25). find_unused_parameters: allow a forward pass
    that leaves parameters out, which costs a walk over the tape. broadcast_buffers: rank 0's buffers go to all ranks
    before each forward pass in training. `cutaway.compile` of the wrapper compiles the module within.
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
        buckets = in_buckets([p for _, p in named], limit, min(FIRST_BYTES, limit))
        self.reducer = Reducer(buckets, self.process_group, find_unused_parameters)
        self.reducer.names = {id(p): name for name, p in named}
        for _, parameter in named:
            parameter.register_post_accumulate_grad_hook(self._gradient_is_there)

    def _check_equal(self) -> None:
        group = self.process_group
        if group.size() > 1:
            told = [f"{name} {p.dtype}{[*p.shape]}" for name, p in self.module.named_parameters()]
            agree(group.checks, f"DistributedDataParallel of {'; '.join(told)}", group.ranks, group.timeout)

    def _from_rank_0(self, tensors: list[Tensor]) -> None:
        for tensor in tensors:
            broadcast(tensor, self.process_group.ranks[0], self.process_group)

    @disable(recursive=False)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        training = self.training and is_grad_enabled() and self.require_backward_grad_sync
        if training and self.broadcast_buffers and self.process_group.size() > 1:
            self._from_rank_0(list(self.module.buffers()))
        output = self.module(*args, **kwargs)
        if training:
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
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Let `hook(state, bucket)` do a bucket's communication. What it returns has `wait()`: a Tensor, or None when
        the result is in `bucket.buffer()`."""
        self.reducer.state, self.reducer.hook = state, hook
