"""Collectives on Python objects, by pickle: so only among processes that you trust.

Input: any objects that pickle can write. MPI (or the store between processes) moves them.
"""

from __future__ import annotations

from typing import Any

from cutaway.distributed.group import GroupMember, resolve


def all_gather_object(object_list: list, obj: Any, group: Any = None) -> None:
    """`object_list[i]` becomes rank i's `obj`. By pickle, so only among processes that you trust."""
    if group is not GroupMember.NON_GROUP_MEMBER:
        object_list[:] = resolve(group).comm.allgather(obj)


def gather_object(obj: Any, object_gather_list: list | None = None, dst: int = 0, group: Any = None) -> None:
    """all_gather_object to rank `dst` only."""
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    members = resolve(group)
    found = members.comm.gather(obj, members.index(dst, "dst"))
    if found is not None and object_gather_list is not None:
        object_gather_list[:] = found


def broadcast_object_list(object_list: list, src: int = 0, group: Any = None, device: Any = None) -> None:
    """Every rank's list becomes rank `src`'s. By pickle, so only among processes that you trust."""
    if group is not GroupMember.NON_GROUP_MEMBER:
        members = resolve(group)
        object_list[:] = members.comm.bcast(object_list, members.index(src, "src"))
