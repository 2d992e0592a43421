"""torch.utils.data here and there: what collate and convert make of items, which batches a loader gives, which errors.

Input: CASES, functions of a torch; what they give is compared as plain data, an error by its class and its text.
"""

import collections

import numpy as np
import pytest

from cutaway.torch_api import torch as ours

torch = pytest.importorskip("torch")
Pair = collections.namedtuple("Pair", "a b")
Named = collections.OrderedDict

ITEMS = [
    [1.5, 2.5], [1, 2], [2.5, 1], [1, 2.5], [True, False], [1j, 2j], [None, None], ["a", "b"], [b"a", b"b"],
    [np.float32(1), np.float32(2)], [np.float64(1)], [np.int32(1), np.int32(3)], [np.bool_(True)], [np.float16(1)],
    [np.zeros((2, 3), np.float32)] * 2, [np.array(1.5)] * 2, [np.array(["a"])] * 2, [(1, 2.0), (3, 4.0)], [[1], [1, 2]],
    [(1, "a"), (2, "b")], [(), ()], [{"a": 1, "b": [1.0, 2.0]}, {"a": 2, "b": [1.0, 4.0]}], [{}, {}], [{"a": 1}, {"b": 1}],
    [Pair(1, 2.0), Pair(3, 4.0)], [Named(a=1), Named(a=2)], [range(3), range(3)], [object()],
]  # fmt: skip


def numbered(t, count=7):
    return t.utils.data.TensorDataset(t.arange(count).float(), t.arange(count))


def streamed(t, count=7):
    class Stream(t.utils.data.IterableDataset):
        def __iter__(self):
            return iter([float(i) for i in range(count)])

        def __len__(self):
            return count

    return Stream()


class AtOnce:
    def __getitem__(self, index):
        return index

    def __len__(self):
        return 6

    def __getitems__(self, indices):
        return [100 + i for i in indices]


def loaded(t, dataset, *args, **options):
    loader = t.utils.data.DataLoader(dataset, *args, **options)
    kinds = type(loader.sampler).__name__.strip("_").replace("InfiniteConstantSampler", "Endless")
    return list(loader), len(loader), loader.batch_size, loader.drop_last, loader.num_workers, kinds


CASES = {f"collate {items}": lambda t, items=items: t.utils.data.default_collate(items) for items in ITEMS}
CASES |= {
    f"convert {items}": lambda t, items=items: t.utils.data.default_convert(items[0]) for items in ITEMS
}
LOADERS = {
    "a table": numbered, "a list": lambda t: list(range(7)), "a stream": streamed, "arrays": lambda t: [np.ones(2), np.zeros(2)],
    "at once": lambda t: AtOnce(), "a part at once": lambda t: t.utils.data.Subset(AtOnce(), [1, 2, 3]),
    "two tables": lambda t: numbered(t) + numbered(t, 2), "two streams": lambda t: streamed(t) + streamed(t, 2),
    "side by side": lambda t: t.utils.data.StackDataset([1, 2], [3, 4]), "by name": lambda t: t.utils.data.StackDataset(a=[1, 2], b=[3, 4]),
}  # fmt: skip
OPTIONS = [
    {}, {"batch_size": 3}, {"batch_size": 3, "drop_last": True}, {"batch_size": None}, {"batch_size": None, "drop_last": True},
    {"sampler": [1, 0]}, {"batch_sampler": [[1], [0, 1]]}, {"batch_sampler": [[1]], "batch_size": 2}, {"batch_size": 2.5},
    {"batch_sampler": [[1]], "shuffle": True}, {"batch_sampler": [[1]], "sampler": [1]}, {"sampler": [1], "shuffle": True},
    {"batch_size": None, "collate_fn": lambda item: ("one", item)}, {"batch_size": 2, "collate_fn": len}, {"num_workers": -1},
    {"timeout": -1}, {"prefetch_factor": 2}, {"persistent_workers": True}, {"batch_size": 0}, {"batch_sampler": [[1]], "drop_last": True},
]  # fmt: skip
CASES |= {
    f"load {name} {i}": lambda t, of=of, options=options: loaded(t, of(t), **options)
    for name, of in LOADERS.items()
    for i, options in enumerate(OPTIONS)
}
CASES |= {
    "fractions": lambda t: t.utils.data.random_split(range(10), [1.2, -0.2]),
    "a part by a list": lambda t: t.utils.data.Subset(numbered(t), [1, 5])[[0, 1]],
    "set later": lambda t: setattr(t.utils.data.DataLoader([1]), "batch_size", 3),
    "weights of two dimensions": lambda t: t.utils.data.WeightedRandomSampler([[1.0]], 1),
    "no weighted draws": lambda t: t.utils.data.WeightedRandomSampler([1.0], 0),
    "half a draw": lambda t: t.utils.data.RandomSampler([1], num_samples=2.5),
    "replacement is a number": lambda t: t.utils.data.RandomSampler([1], replacement=1),
    "drop_last is a number": lambda t: t.utils.data.BatchSampler([1], 1, 1),
}


def plain(value, t):
    if isinstance(value, t.Tensor):
        return "tensor", str(value.dtype).rpartition(".")[2], tuple(value.shape), value.tolist()
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(key, plain(part, t)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(part, t) for part in value]
    return (
        value
        if isinstance(value, (int, float, complex, str, bytes, range, type(None)))
        else type(value).__name__
    )


def answer(case, t):
    try:
        return plain(case(t), t)
    except (ValueError, TypeError, RuntimeError, IndexError, KeyError) as error:
        text = "" if isinstance(error, (TypeError, IndexError)) else str(error)
        return type(error).__name__, text.partition(" at 0x")[0]


def test_data_beside_torch():
    differ = {name: (answer(case, torch), answer(case, ours)) for name, case in CASES.items()}
    assert not {name: both for name, both in differ.items() if both[0] != both[1]}
