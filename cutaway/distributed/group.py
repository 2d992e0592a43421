"""Process groups: which ranks talk to each other, by torch.distributed's names.

Input: MPI's communicator of the processes that `mpiexec` (or `cutaway run --nproc`) started, or what rendezvous.py
finds. A group holds two communicators: one for the collectives, one on which ranks first compare what they are about to
do. Collectives in graphs go by the group's name to its lanes: of the CPU (lane.py), of the GPU (nccl_lane.py).
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cutaway.distributed import mpi, nccl
from cutaway.distributed.agreement import agree
from cutaway.distributed.lane import Lane
from cutaway.distributed.lanes import Lanes
from cutaway.distributed.nccl_lane import NcclLane
from cutaway.distributed.rendezvous import meet
from cutaway.distributed.store import Store
from cutaway.distributed.store_comm import StoreComm
from cutaway.distributed.watch import tell_of_errors
from stage_contracts import communicators
from stage_contracts.decisions import DECIDERS

DEFAULT_TIMEOUT = timedelta(minutes=30)  # torch's
# gloo is torch's name for the processes' CPU memory; here MPI moves it
BACKENDS = ("mpi", "gloo", "nccl")


@dataclass(eq=False)
class ProcessGroup:
    """Some of the processes. `ranks` are their numbers among all of them; `rank` is this process's place in `ranks`.

    _set_pg_timeout changes `timeout`; nothing else changes.
    """

    comm: Any
    checks: Any
    ranks: tuple[int, ...]
    rank: int
    timeout: float
    name: str = "world"
    store: Store | None = None  # with it NCCL moves the memory of GPUs
    on_cpu: bool = True  # whether MPI moves the memory of CPUs

    def size(self) -> int:
        return len(self.ranks)

    def index(self, rank: int, what: str) -> int:
        """The place in this group of a rank among all processes. ValueError where it is not a member."""
        if rank not in self.ranks:
            raise ValueError(f"{what}={rank} is not in the group of ranks {[*self.ranks]}")
        return self.ranks.index(rank)


class GroupMember:
    """torch's place for the sentinel that new_group returns to a process outside the new group."""

    NON_GROUP_MEMBER = object()


class group:
    """`group.WORLD` is the group of all processes, None before init_process_group."""

    WORLD: ProcessGroup | None = None


def is_available() -> bool:
    """Whether mpi4py is installed."""
    return mpi.available()


is_mpi_available = is_available


def is_nccl_available() -> bool:
    """Whether CuPy, a GPU and the NCCL library are there."""
    return nccl.available()


def is_gloo_available() -> bool:
    return is_available()


def is_initialized() -> bool:
    return group.WORLD is not None


def is_torchelastic_launched() -> bool:
    return False


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    **options: Any,
) -> None:
    """Join the processes that were started together. Call it once in each, first of all.

    backend is "mpi" (or "gloo", which is the same here), "nccl", or both: "cpu:gloo,cuda:nccl". MPI finds its processes
    through `mpiexec` only, so rank and world_size, if you give them, must be what it says. NCCL also takes torchrun's
    variables or init_method (rendezvous.py). timeout is how long a collective waits for the other ranks. Raises
    RuntimeError when called twice or where a library is missing, ValueError where the ranks' words are.
    """
    if group.WORLD is not None:
        raise RuntimeError("trying to initialize the default process group twice!")
    names = {part.rpartition(":")[2].lower() for part in (backend or "mpi").split(",")}
    if names - {*BACKENDS}:
        raise ValueError(f"unknown backend {backend!r}; Cutaway has {', '.join(map(repr, BACKENDS))}")
    unknown = options.keys() - {"store", "group_name", "pg_options", "device_id"}
    if unknown:
        raise TypeError(f"init_process_group got an unexpected keyword argument {unknown.pop()!r}")
    limit = (timeout or DEFAULT_TIMEOUT).total_seconds()
    if "nccl" not in names:
        made = _by_mpi(world_size, rank, limit, None)
    else:
        nccl.library()
        place, count, store = meet(init_method, world_size, rank, limit, options.get("store"))
        if mpi.started_by_mpiexec():
            made = _by_mpi(count, place, limit, store)
        elif names != {"nccl"}:
            raise RuntimeError(
                f"backend {backend!r} also moves the memory of CPUs, for which mpiexec starts the processes"
            )
        else:
            comm = StoreComm(store, "world", count, place, limit)
            made = ProcessGroup(comm, comm.Dup(), tuple(range(count)), place, limit, "world", store, False)
            tell_of_errors(store, place)
    group.WORLD = _entered(made)
    if made.size() > 1:
        DECIDERS.append(_of_rank_0)
    atexit.register(destroy_process_group)


def _of_rank_0(what: str, mine: bool) -> bool:
    """Rank 0's choice, on every rank; each asks at the same call. DistBackendError where one does not."""
    world = resolve(None)
    agree(world.checks, f"the choice: {what}", world.ranks, world.timeout)
    return bool(world.comm.bcast(mine, 0))


def _by_mpi(world_size: int, rank: int, limit: float, store: Store | None) -> ProcessGroup:
    """The group of all processes that mpiexec started."""
    wanted = world_size if world_size != -1 else int(os.environ.get("WORLD_SIZE", -1))
    if wanted > 1 and not mpi.started_by_mpiexec():
        raise RuntimeError(
            f"{wanted} processes were asked for, but no mpiexec started this one, so MPI cannot find the others; "
            f"start the script with `cutaway run --nproc {wanted} script.py` or `mpiexec -n {wanted} python script.py`"
        )
    world = mpi.library().COMM_WORLD
    for given, truth, what in ((wanted, world.Get_size(), "world_size"), (rank, world.Get_rank(), "rank")):
        if given not in (-1, truth):
            raise ValueError(f"{what} is {given}, but MPI started this process with {what} {truth}")
    ranks = tuple(range(world.Get_size()))
    if len(ranks) > 1:
        mpi.end_all_on_an_error(world.Get_rank())
    return ProcessGroup(world.Dup(), world.Dup(), ranks, world.Get_rank(), limit, store=store)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget the group, or with no group all of them. Every one of its ranks must call it."""
    world = _World.WORLD
    ended = list(_LANES) if group is None or group is world else [group.name]
    for name in ended:
        communicators.leave(name)
        _LANES.pop(name).close()
    if group is None or group is world:
        _World.WORLD = None
        DECIDERS.clear()
        if world is not None and world.store is not None:
            world.store.leave()
    atexit.unregister(destroy_process_group)


_World = group  # the parameter `group` of the functions hides the class


def new_group(ranks: Sequence[int] | None = None, timeout: timedelta | None = None, **_: Any) -> Any:
    """A group of some ranks; all processes must call it, those outside too: they get GroupMember.NON_GROUP_MEMBER."""
    world = resolve(None)
    members = tuple(sorted(world.ranks if ranks is None else ranks))
    if len(set(members)) != len(members) or not set(members) <= set(world.ranks):
        raise ValueError(f"ranks must be different numbers below {world.size()}, but they are {[*members]}")
    number = next(_NUMBERS)
    name = f"group {number} of {', '.join(map(str, members))}"
    limit = timeout.total_seconds() if timeout else world.timeout
    comm = world.comm.Create(world.comm.Get_group().Incl(members)) if world.on_cpu else None
    if world.rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    place = members.index(world.rank)
    if comm is None:
        assert world.store is not None
        comm = StoreComm(world.store, name, len(members), place, limit)
    return _entered(ProcessGroup(comm, comm.Dup(), members, place, limit, name, world.store, world.on_cpu))


def _entered(made: ProcessGroup) -> ProcessGroup:
    """The group, which graphs may name from now on."""
    told = made.ranks, made.rank, made.timeout
    lanes = Lanes(
        Lane(made.comm.Dup(), made.comm.Dup(), *told) if made.on_cpu else None,
        NcclLane(made.store, made.name, *told) if made.store is not None else None,
    )
    communicators.enter(made.name, lanes)
    _LANES[made.name] = lanes
    return made


_LANES: dict[str, Lanes] = {}  # the open groups' lanes
_NUMBERS = itertools.count(1)  # all processes make all groups in the same order


def resolve(chosen: Any) -> ProcessGroup:
    """The group itself, or the group of all processes for None. RuntimeError before init_process_group."""
    if chosen is None:
        chosen = group.WORLD
    if chosen is None:
        raise RuntimeError(
            "Default process group has not been initialized, please make sure to call init_process_group."
        )
    if not isinstance(chosen, ProcessGroup):
        raise TypeError(f"group must be what new_group returned to one of its members, but it is {chosen!r}")
    return chosen


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """How long the group's collectives wait from now on: long while programs are built, short in the steps after.

    torch.distributed.distributed_c10d's name.
    """
    members, seconds = resolve(group), timeout.total_seconds()
    members.timeout = seconds
    for comm in (members.comm, members.checks):
        if isinstance(comm, StoreComm):
            comm.timeout = seconds
    _LANES[members.name].wait_for(seconds)


def get_rank(group: Any = None) -> int:
    """This process's number in the group, or -1 outside it."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else resolve(group).rank


def get_world_size(group: Any = None) -> int:
    """How many processes the group has, or -1 outside it."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else resolve(group).size()


def get_backend(group: Any = None) -> str:
    return "mpi" if resolve(group).on_cpu else "nccl"


def get_process_group_ranks(group: Any = None) -> list[int]:
    return list(resolve(group).ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    return resolve(group).ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    return resolve(group).index(global_rank, "global_rank")
