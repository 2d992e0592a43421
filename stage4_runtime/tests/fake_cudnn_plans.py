"""The graph interface of the cuDNN that is made of NumPy: descriptors with attributes, plans, and their execution.

Input: as in fake_cudnn.py. An attribute is refused if its descriptor is finished, and what cuDNN demands of a kind of
descriptor is demanded here. Numbers are written out again from cuDNN's documentation, not taken from the runtime.
"""

import ctypes
from types import SimpleNamespace

from stage4_runtime.tests.fake_cudnn import BAD_PARAM, DTYPES, NOT_SUPPORTED, OPERATIONS, FakeCudnn, _array

KINDS = {
    1: "convolution", 2: "engine", 3: "engine configuration", 4: "heuristics", 5: "plan", 10: "Forward",
    11: "BackwardFilter", 12: "BackwardData", 15: "graph", 16: "pack", 17: "tensor",
}  # fmt: skip
TYPES = {0: ctypes.c_void_p, 1: ctypes.c_int, 3: ctypes.c_int64, 4: ctypes.c_float, 6: ctypes.c_void_p,
         7: ctypes.c_int, 8: ctypes.c_int, 11: ctypes.c_int, 15: ctypes.c_void_p}  # fmt: skip
# kind: {attribute: (name, type)}; all are demanded
DEMANDED = {
    "tensor": {900: ("alignment", 3), 901: ("dtype", 1), 902: ("shape", 3), 903: ("strides", 3), 906: ("id", 3)},
    "convolution": {100: ("sums", 1), 101: ("mode", 7), 102: ("dilation", 3), 103: ("stride", 3), 104: ("after", 3),
                    105: ("padding", 3), 106: ("rank", 3)},
    "Forward": {700: ("alpha", 4), 701: ("beta", 4), 702: ("how", 15), 703: ("w", 15), 704: ("x", 15), 705: ("y", 15)},
    "BackwardData": {706: ("alpha", 4), 707: ("beta", 4), 708: ("how", 15), 709: ("w", 15), 710: ("x", 15),
                     711: ("y", 15)},
    "BackwardFilter": {712: ("alpha", 4), 713: ("beta", 4), 714: ("how", 15), 715: ("w", 15), 716: ("x", 15),
                       717: ("y", 15)},
    "graph": {800: ("handle", 0), 801: ("operations", 15)},
    "heuristics": {200: ("mode", 8), 201: ("graph", 15)},
    "plan": {400: ("handle", 0), 401: ("configuration", 15)},
    "pack": {1000: ("ids", 3), 1001: ("pointers", 6), 1003: ("work", 6)},
}  # fmt: skip


class FakePlans(FakeCudnn):
    """`engines`: for each configuration of the heuristics, (status of its plan, bytes, numerical notes)."""

    def __init__(self, engines=((0, 700, (0,)),), **words):
        super().__init__(**words)
        self.engines, self.executed, self.packs = engines, [], 0

    def cudnnBackendCreateDescriptor(self, kind, place):
        place._obj.value = 1000 + len(self.made)
        self.made[place._obj.value] = SimpleNamespace(kind=KINDS[kind], finished=False)
        self.packs += KINDS[kind] == "pack"
        return 0

    def cudnnBackendDestroyDescriptor(self, place):
        assert self.made.pop(place.value).kind == "pack"
        self.packs -= 1
        return 0

    def cudnnBackendSetAttribute(self, place, name, kind, count, array):
        one = self.made[place.value]
        if one.finished or name not in DEMANDED[one.kind] or DEMANDED[one.kind][name][1] != kind:
            return BAD_PARAM
        assert array._type_ is TYPES[kind] and len(array) == count.value
        setattr(one, DEMANDED[one.kind][name][0], tuple(array))
        return 0

    def cudnnBackendFinalize(self, place):
        one = self.made[place.value]
        if one.finished or not all(hasattr(one, name) for name, _ in DEMANDED[one.kind].values()):
            return BAD_PARAM
        if one.kind == "convolution" and (one.mode != (1,) or one.padding != one.after):
            return BAD_PARAM
        if one.kind == "graph" and self._operation(one) is None:
            return BAD_PARAM
        if one.kind == "plan" and (status := self.engines[self.made[one.configuration[0]].number][0]):
            return status
        one.finished = True
        return 0

    def cudnnBackendGetAttribute(self, place, name, kind, wanted, count, array):
        one, engines = self.made[place.value], self.engines
        if one.kind == "heuristics" and (name, kind) == (202, 15) and one.mode == (3,):
            return self._fill(range(len(engines)), wanted, count, array, "engine configuration")
        if one.kind == "engine configuration" and (name, kind) == (300, 15):
            return self._fill([one.number], wanted, count, array, "engine")
        if one.kind == "engine" and (name, kind) == (1303, 11):
            return self._fill(engines[one.number][2], wanted, count, array)
        if one.kind == "plan" and (name, kind) == (402, 3) and one.finished:
            return self._fill([engines[self.made[one.configuration[0]].number][1]], wanted, count, array)
        return NOT_SUPPORTED

    def _fill(self, values, wanted, count, array, kind=""):
        """As many values as there is room for; descriptors are there already, and get the number of their engine."""
        count._obj.value = len(values) if not wanted.value else min(len(values), wanted.value)
        for at, value in enumerate(values[: wanted.value]):
            if kind:
                one = self.made[array[at]]
                assert one.kind == kind and not one.finished
                one.number, one.finished = value, True
            else:
                array[at] = value
        return 0

    def _operation(self, graph):
        """(which, x, w and y by name, how) of a graph; None where they are no convolution."""
        (place,) = graph.operations
        one = self.made[place]
        assert self.made[graph.handle[0]].kind == "Handle" and one.finished
        parts = {name: self.made[getattr(one, name)[0]] for name in "xwy"}
        how = self.made[one.how[0]]
        (rank,) = how.rank
        x, w, y = (parts[name].shape for name in "xwy")
        groups = x[1] // w[1]
        assert (one.alpha, one.beta, how.sums) == ((1.0,), (0.0,), (0,)) and len(x) == rank + 2
        windows = zip(x[2:], w[2:], how.stride, how.padding, how.dilation, strict=True)
        sizes = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in windows)
        if (x[0], w[0], sizes, groups * w[1]) != (y[0], y[1], y[2:], x[1]):
            return None
        return one.kind, parts, SimpleNamespace(**{**vars(how), "groups": groups})

    def cudnnBackendExecute(self, handle, plan, pack):
        plan, pack = self.made[plan.value], self.made[pack.value]
        assert plan.finished and pack.finished and plan.kind == "plan" and pack.kind == "pack"
        configuration = self.made[plan.configuration[0]].number
        kind, parts, how = self._operation(self._graph())
        if self.engines[configuration][1] and not pack.work[0]:
            return BAD_PARAM
        ctypes.memset(pack.work[0], 0xAB, self.engines[configuration][1]) if pack.work[0] else None
        at = dict(zip(pack.ids, pack.pointers, strict=True))
        arrays = {}
        for name, part in parts.items():
            place = at[part.id[0]]
            assert place % part.alignment[0] == 0
            seen = SimpleNamespace(dtype=DTYPES[part.dtype[0]], shape=part.shape, strides=part.strides)
            arrays[name] = _array(place, seen)
        self.executed.append((kind, configuration, self.made[handle.value].stream))
        OPERATIONS[kind](arrays, how)
        return 0

    def _graph(self):
        """The graph that the plans were made for: a test's library makes one."""
        (graph,) = [one for one in self.made.values() if one.kind == "graph"]
        return graph
