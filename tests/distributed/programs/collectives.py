"""Every collective on every dtype and layout, each result compared with NumPy's on what all ranks hold.

Usage: collectives.py [nccl|cuda]. "cuda": on GPUs; "nccl": the same calls to the stand-in for CuPy's NCCL.
"""

import itertools
import sys

import ml_dtypes
import numpy as np
import torch
import torch.distributed as dist

OPS = {
    "SUM": lambda a: a.sum(0),
    "AVG": lambda a: a.mean(0),
    "PRODUCT": lambda a: a.prod(0),
    "MIN": lambda a: a.min(0),
    "MAX": lambda a: a.max(0),
    "BAND": np.bitwise_and.reduce,
    "BOR": np.bitwise_or.reduce,
    "BXOR": np.bitwise_xor.reduce,
}
OF_BOOLS = {"SUM": "BOR", "PRODUCT": "BAND", "MIN": "BAND", "MAX": "BOR"}
DTYPES = "float32 float64 float16 bfloat16 int8 int32 int64 uint8 bool".split()
LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t(),
    "sliced": lambda t: t[:, ::2],
    "empty": lambda t: t[:0],
    "0-d": lambda t: t[0, 0],
}


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def value(rank, name):
    """(4, 6), different on each rank, the same wherever it is computed."""
    drawn = np.random.default_rng(rank).integers(-2, 3, (4, 6))
    return (drawn > 0 if name == "bool" else np.abs(drawn) if name == "uint8" else drawn).astype(
        numpy_dtype(name)
    )


NCCL = sys.argv[1:2] in (["nccl"], ["cuda"])
DEVICE = "cuda" if sys.argv[1:2] == ["cuda"] else "cpu"
if sys.argv[2:]:
    DTYPES = sys.argv[2:]


def allowed(op, name):
    if NCCL and op in ("BAND", "BOR", "BXOR"):
        return name == "bool" and op != "BXOR"
    if name == "bool":
        return op != "AVG"
    if op in ("BAND", "BOR", "BXOR"):
        return "int" in name
    return op != "AVG" or "int" not in name


def refused(call):
    try:
        call()
    except TypeError:
        return True
    return False


def main():
    if sys.argv[1:2] == ["nccl"]:
        from tests.distributed import nccl_standin

        nccl_standin.install()
    dist.init_process_group("nccl" if NCCL else "gloo")
    assert dist.get_backend() == ("nccl" if NCCL else "mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    done = 0
    for name, (layout, view) in itertools.product(DTYPES, LAYOUTS.items()):

        def mine(of, name=name, view=view):
            return view(torch.from_numpy(value(of, name)).to(DEVICE))

        def check(tensor, wanted, what, name=name, layout=layout):
            nonlocal done
            found = tensor.cpu().numpy()
            wanted = np.asarray(wanted).astype(numpy_dtype(name))
            assert found.shape == wanted.shape and (found == wanted).all(), (
                what,
                name,
                layout,
                found,
                wanted,
            )
            done += 1

        everyone = np.stack([mine(r).cpu().numpy() for r in range(size)])
        wide = everyone.astype(np.float32) if name in ("float16", "bfloat16") else everyone
        for op, reduction in OPS.items():
            how = dist.ReduceOp[op]
            if not allowed(op, name):
                assert refused(lambda how=how: dist.all_reduce(mine(rank), how)), (op, name)
                continue
            wanted = (OPS[OF_BOOLS.get(op, op)] if name == "bool" else reduction)(wide)
            x = mine(rank)
            before = x.version
            dist.all_reduce(x, how)
            check(x, wanted, f"all_reduce {op}")
            assert x.version > before
            x = mine(rank)
            dist.reduce(x, size - 1, how)
            check(x, wanted if rank == size - 1 else mine(rank).cpu().numpy(), f"reduce {op}")
            parts = [mine(r) for r in range(size)]
            out = mine(0)
            dist.reduce_scatter(out, parts, how)  # every rank gives the same parts
            same = np.stack([everyone[rank]] * size).astype(wide.dtype)
            check(
                out,
                (OPS[OF_BOOLS.get(op, op)] if name == "bool" else reduction)(same),
                f"reduce_scatter {op}",
            )
        x = mine(rank)
        dist.broadcast(x, 1)
        check(x, everyone[1], "broadcast")
        out = [torch.empty_like(mine(rank)) for _ in range(size)]
        dist.all_gather(out, mine(rank))
        check(torch.stack(out), everyone, "all_gather")
        whole = torch.empty((size, *mine(rank).shape), dtype=mine(rank).dtype, device=DEVICE)
        work = dist.all_gather_into_tensor(whole, mine(rank), async_op=True)
        assert work.wait() and work.is_completed()
        check(whole, everyone, "all_gather_into_tensor")
        out = [torch.empty_like(mine(rank)) for _ in range(size)] if rank == 0 else None
        dist.gather(mine(rank), out, 0)
        if rank == 0:
            check(torch.stack(out), everyone, "gather")
        x = torch.empty_like(mine(rank))
        dist.scatter(x, [mine(r) for r in range(size)] if rank == 0 else None, 0)
        check(x, everyone[rank], "scatter")
        out = [torch.empty_like(mine(rank)) for _ in range(size)]
        dist.all_to_all(out, [mine(rank)] * size)
        check(torch.stack(out), everyone, "all_to_all")
        x = torch.empty_like(mine(rank))
        if rank % 2:  # NCCL's calls run one after the other: a ring of sends before receives waits for ever
            assert dist.recv(x, (rank - 1) % size, tag=3) == (rank - 1) % size
            dist.send(mine(rank), (rank + 1) % size, tag=3)
        else:
            sending = dist.isend(mine(rank), (rank + 1) % size, tag=3)
            dist.irecv(x, (rank - 1) % size, tag=3).wait()
            sending.wait()
        check(x, everyone[rank - 1], "send, recv")
        x = torch.empty_like(mine(rank))
        ring = [
            dist.P2POp(dist.isend, mine(rank), (rank + 1) % size),
            dist.P2POp(dist.irecv, x, (rank - 1) % size),
        ]
        for work in dist.batch_isend_irecv(ring):
            work.wait()
        check(x, everyone[rank - 1], "batch_isend_irecv")
    half = dist.new_group([0])
    assert dist.get_rank(half) == (0 if rank == 0 else -1)
    x = torch.ones(2, device=DEVICE)
    dist.all_reduce(x, group=half)
    assert x.tolist() == [1, 1]
    uneven = torch.zeros(size, device=DEVICE)
    dist.all_to_all_single(uneven, torch.arange(size * 1.0, device=DEVICE) + 10 * rank)
    assert uneven.tolist() == [rank + 10.0 * r for r in range(size)]
    # rank r sends r + 1 rows to each
    rows = torch.full((size * (rank + 1), 2), rank, device=DEVICE)
    parts = torch.zeros(sum(r + 1 for r in range(size)), 2, device=DEVICE).long()
    dist.all_to_all_single(parts, rows, [r + 1 for r in range(size)], [rank + 1] * size)
    assert parts[:, 0].tolist() == [r for r in range(size) for _ in range(r + 1)]
    # rank r has r + 1 rows, and sends r + p + 1 of its numbers to rank p
    parts = [torch.zeros(r + 1, 2, device=DEVICE) for r in range(size)]
    dist.all_gather(parts, torch.full((rank + 1, 2), 1.0 * rank, device=DEVICE))
    assert [p.tolist() for p in parts] == [[[r, r]] * (r + 1) for r in range(size)]
    parts = [torch.zeros(rank + r + 1, device=DEVICE) for r in range(size)]
    dist.all_to_all(parts, [torch.full((rank + p + 1,), 10.0 * rank + p, device=DEVICE) for p in range(size)])
    assert [p.tolist() for p in parts] == [[10.0 * r + rank] * (rank + r + 1) for r in range(size)]
    told = [None] * size
    dist.all_gather_object(told, {"rank": rank})
    assert told == [{"rank": r} for r in range(size)]
    dist.barrier()
    dist.destroy_process_group()
    print(f"rank {rank}: {done} results equal")


main()
