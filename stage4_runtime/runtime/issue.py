"""Issue: consecutive launches on a GPU as one call of C, which hands a table of launches to the driver.

Input: CuPy, the launchers that cuda.py made, and for each launch which words of the call are its arguments. One small
C function serves every program: it is compiled once per machine. Where it cannot be had, each launch is Python's.
"""

# Why a table and not generated C++ as on the CPU: a launch is data (a function, a grid, the places of its arguments),
# so nothing is left to compile per program. Kernels take pointers and sizes of 64 bits, so an argument of a launch is
# a pointer to one of the call's words: nothing is packed, nothing is shared, and there is no lock.

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from stage4_runtime.runtime.build import build
from stage4_runtime.runtime.segment_calls import builtin, host_table
from stage_contracts import events
from stage_contracts.device import CPU
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.host_interface import HOST_FIELDS
from stage_contracts.program import SourceUnit, Target

MOST = 500  # words of a call, and arguments of a launch: they lie on the stack

SOURCE = f"""\
#include <stdint.h>

struct Object {{ int64_t references; const void* type; }};  // what every object of Python begins with
struct Array : Object {{ const int64_t* data; }};           // and an array of NumPy

using Launch = int (*)(  // cuLaunchKernel
    int64_t function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
    unsigned shared, int64_t stream, const void* const* arguments, const void* const* extra);

struct Host {{
    int64_t (*as_int64)(const Object*);
    Object* (*from_int64)(int64_t);
    void* (*save_thread)();
    void (*restore_thread)(void*);
    const Object* (*error_occurred)();
    Launch launch;
}};

// One launch; the numbers of its arguments' words follow. The blocks are those of a word, if it has one.
struct Row {{ int64_t function, blocks, blocks_word, y, z, threads, shared, count; }};

// issue(stream, words...) -> 0, or what the driver said of the first launch that it refused
extern "C" Object* issue(const Object* self, const Object* const* given, int64_t count) {{
    const int64_t* table = static_cast<const Array*>(self)->data;
    const Host& host = *reinterpret_cast<const Host*>(table);
    table += sizeof(Host) / 8;
    int64_t words[{MOST} + 2];
    const void* arguments[{MOST} + 2];
    words[0] = 0;  // of both scratch pointers
    for (int64_t k = 0; k < count; ++k) {{
        words[k + 1] = host.as_int64(given[k]);
        if (words[k + 1] == -1 && host.error_occurred()) return nullptr;
    }}
    void* thread = host.save_thread();  // the driver waits when its queue is full
    int failed = 0;
    for (int64_t launches = *table++; launches > 0 && !failed; --launches) {{
        const Row& row = *reinterpret_cast<const Row*>(table);
        table += sizeof(Row) / 8;
        for (int64_t k = 0; k < row.count; ++k) arguments[k] = words + *table++;
        int64_t blocks = row.blocks_word ? words[row.blocks_word] : row.blocks;
        failed = host.launch(
            row.function, blocks < 1 ? 1 : blocks, row.y, row.z, row.threads, 1, 1,
            row.shared, words[1], arguments, nullptr);
    }}
    host.restore_thread(thread);
    return host.from_int64(failed);
}}
"""


@dataclass(frozen=True)
class Ready:
    """A loaded kernel as the table has it. `blocks_at`: of the open sizes, where these decide how many there are."""

    function: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    takes: int  # arguments, each of 64 bits
    blocks_at: Callable[..., int] | None = None


def issuer(cp: Any) -> Callable[..., Callable] | None:
    """`make(launches)`: of (kernel, its words, the word of its blocks or 0) a function of (stream, words...). The
    stream is word 1. None where C cannot launch."""
    place, table = driver_launch(cp), host_table(False)
    function = compiled() if place and table is not None else None
    if function is None or table is None:
        return None
    python = ctypes.pythonapi
    host = [int(table[HOST_FIELDS.index(name)]) for name in HOST_FIELDS[:4]]
    host += [ctypes.cast(python.PyErr_Occurred, ctypes.c_void_p).value or 0, place]

    def make(launches: Sequence[tuple[Ready, Sequence[int], int]]) -> Callable:
        rows = [*host, len(launches)]
        for ready, words, blocks in launches:
            (x, y, z), scratch = ready.grid, (0, 0)
            rows += [ready.function, x, blocks, y, z, ready.threads, ready.shared, len(words) + len(scratch)]
            rows += [*words, *scratch]
        return builtin(function, np.array(rows, np.uint64))

    return make


def driver_launch(cp: Any) -> int:
    """The address of CUDA's cuLaunchKernel, which CuPy has loaded; 0 where there is none, or a stand-in for CuPy."""
    if not isinstance(cp, ModuleType):
        return 0
    try:
        function = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def compiled() -> Any:
    """The C function; None, and an event, where it cannot be compiled."""
    unit = SourceUnit("issue", "cpp", SOURCE, ("issue",), Target("cpp", CPU))
    try:
        return build(unit)["issue"]
    except (BuildError, CompilerMissing) as error:
        events.record("fallback", "issue", reason=str(error).splitlines()[0])
        return None
