"""Several processes, by torch.distributed's names: process groups, collectives, data-parallel training.

Input: processes that `cutaway run --nproc N script.py` or `mpiexec` started. MPI moves the data (the extra
`distributed`); nothing here is imported by `import cutaway`.

    group.py          which ranks talk to each other
    collectives.py    all_reduce, broadcast, ...: on tensors, in place
    functional.py     the same as operators of graphs; lane.py runs them beside the program
    agreement.py      ranks compare what they are about to do; a wait that ends
    mpi.py            the only file that touches MPI
    nccl.py           the only file that calls NCCL; nccl_lane.py puts its calls beside a GPU's program
    watch.py          do all ranks put the same on their GPUs, and does it end?
    rendezvous.py     how processes without MPI find each other; store.py has what they leave for one another
    data_parallel.py  DistributedDataParallel, with buckets.py (what travels together) and reducer.py (when)
    coalesced.py      many tensors from rank 0 in few broadcasts
    cost.py           a model of what a step costs, for any number of ranks
    fully_shard.py    parameters, gradients and optimizer state in parts; checkpoint.py saves and loads the parts
    split_graphs.py   a compiled DistributedDataParallel as a graph for each bucket
    sampler.py        each rank's share of the data
"""

from __future__ import annotations

from cutaway.distributed.agreement import DistBackendError, DistError
from cutaway.distributed.batches import P2POp, batch_isend_irecv
from cutaway.distributed.collectives import (
    Work,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    irecv,
    isend,
    recv,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
    send,
)
from cutaway.distributed.data_parallel import DistributedDataParallel
from cutaway.distributed.fully_shard import fully_shard
from cutaway.distributed.group import (
    GroupMember,
    ProcessGroup,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    new_group,
)
from cutaway.distributed.mpi import ReduceOp
from cutaway.distributed.object_collectives import all_gather_object, broadcast_object_list, gather_object
from cutaway.distributed.reducer import GradBucket
from cutaway.distributed.sampler import DistributedSampler
from cutaway.distributed.store import FileStore, TCPStore

__all__ = [
    "DistBackendError", "DistError", "DistributedDataParallel", "DistributedSampler", "FileStore", "GradBucket",
    "GroupMember", "P2POp", "ProcessGroup", "ReduceOp", "TCPStore", "Work", "all_gather", "all_gather_into_tensor",
    "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv",
    "broadcast", "broadcast_object_list", "destroy_process_group", "fully_shard", "gather", "gather_object",
    "get_backend", "get_global_rank", "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "group", "init_process_group", "irecv", "is_available", "is_gloo_available", "is_initialized",
    "is_mpi_available", "is_nccl_available", "is_torchelastic_launched", "isend", "new_group", "recv", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip
