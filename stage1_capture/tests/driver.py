"""A small compile(): captured frames with their guards, resume functions and nested calls, graphs interpreted.

Input: the seam `capture` and a function. It does what cutaway.compile does, without the later stages, and counts
graphs and breaks.
"""

import types
from dataclasses import dataclass, field

from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.harness import guard_function, residual_function
from stage_contracts.capture import run_to_end


@dataclass
class Counts:
    """What was compiled for one call, resume functions and nested frames included."""

    frames: list = field(default_factory=list)

    @property
    def graphs(self):
        return sum(frame.graph is not None for frame in self.frames)

    @property
    def breaks(self):
        return sum(len(frame.breaks) for frame in self.frames)


class Compiled:
    """One function, its entries, and those of all that it leads to."""

    LIMIT = 8

    def __init__(self, function, counts=None, table=None, capture=default_capture, whole=True):
        self.function, self.capture, self.whole = function, capture, whole
        self.counts = counts or Counts()
        self.table = {} if table is None else table
        self.entries = []

    def __call__(self, *args, **kwargs):
        if isinstance(self.function, types.MethodType):
            args = (self.function.__self__, *args)
        if not self.whole:
            return self._run(*args, **kwargs)
        return run_to_end(self._run(*args, **kwargs))

    def _run(self, *args, **kwargs):
        function = getattr(self.function, "__func__", self.function)
        for check, run in self.entries:
            if check(*args, **kwargs):
                return run(*args, **kwargs)
        if len(self.entries) >= self.LIMIT:
            return function(*args, **kwargs)
        frame = self.capture(function, args, kwargs)
        self.counts.frames.append(frame)
        check = guard_function(frame, function)
        assert check(*args, **kwargs), f"the guards fail on the call they were made from: {frame.guards}"
        run = function
        if frame.residual is not None:
            for resume in frame.resumes:
                resume.run = self._other(resume.function, whole=False)
            run = residual_function(frame, function, self._nested)
        self.entries.append((check, run))
        return run(*args, **kwargs)

    def _other(self, function, whole):
        """Resume functions of the same place share their entries; so do nested calls of one function."""
        cells = tuple(map(id, function.__closure__ or ()))
        key = function if whole else (function.__code__, id(function.__globals__), cells)
        if key not in self.table:
            self.table[key] = Compiled(function, self.counts, self.table, self.capture, whole)
        return self.table[key]

    def _nested(self, function):
        if not isinstance(function, types.FunctionType):
            return function
        return self._other(function, whole=True).__call__
