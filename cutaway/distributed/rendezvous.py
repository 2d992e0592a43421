"""How the processes of an NCCL group find each other: through MPI, by torchrun's variables, or in a folder.

Input: init_process_group's words and the environment. Where mpiexec started us, MPI knows the ranks and carries the
address of the store. Else `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` name them, or `init_method`
(`env://`, `tcp://host:port`, `file:///folder`) with `rank` and `world_size`.
"""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from cutaway.distributed import mpi
from cutaway.distributed.store import FileStore, Store, TCPStore

HOW = (
    "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process (torchrun does), pass init_method with rank "
    "and world_size, or start the script with `cutaway run --nproc N script.py`"
)


def meet(
    init_method: str | None, world_size: int, rank: int, timeout: float, store: Any = None
) -> tuple[int, int, Store]:
    """(this process's rank, the number of processes, their store). ValueError where a word is missing."""
    if mpi.started_by_mpiexec() and init_method is None and store is None:
        return _by_mpi(timeout)
    place = urlsplit(init_method or "env://")
    rank = rank if rank != -1 else _variable("RANK")
    world_size = world_size if world_size != -1 else _variable("WORLD_SIZE")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}, but must be at least 0 and below world_size, {world_size}")
    if store is not None:
        return rank, world_size, store
    if place.scheme == "file":
        return rank, world_size, FileStore(place.path, world_size, timeout)
    host, port = _address(init_method)
    return rank, world_size, TCPStore(host, port, world_size, rank == 0, timeout, rank)


def _address(init_method: str | None) -> tuple[str, int]:
    """Where rank 0 listens. ValueError where nothing says it."""
    place = urlsplit(init_method or "env://")
    if place.scheme not in ("env", "tcp"):
        raise ValueError(
            f"unknown init_method {init_method!r}; expected env://, tcp://host:port or file:///folder"
        )
    tcp = place.scheme == "tcp"
    host = place.hostname if tcp else os.environ.get("MASTER_ADDR")
    port = place.port if tcp else _variable("MASTER_PORT")
    if not host or not port:
        raise ValueError(f"there is no address of rank 0 in {init_method or 'MASTER_ADDR'!r}; {HOW}")
    return host, port


def _variable(name: str) -> int:
    found = os.environ.get(name)
    if found is None:
        raise ValueError(f"environment variable {name} is expected, but not set; {HOW}")
    return int(found)


def _by_mpi(timeout: float) -> tuple[int, int, Store]:
    """Rank 0 listens at a free port, and MPI tells the others where."""
    world = mpi.library().COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    served = (
        TCPStore(socket.gethostname() if size > 1 else "localhost", 0, size, True, timeout)
        if rank == 0
        else None
    )
    host, port = world.bcast((served.host, served.port) if served else None, 0)
    return rank, size, served or TCPStore(host, port, size, False, timeout, rank)
