"""Large results that are written past the caches: the bits of plain stores, eager's values, and which results they are.

Input: programs whose results count as large here from 4 KiB on. `python tests/kernels/test_streamed_results.py` says
which of some give other bits in a hundred runs.
"""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage3_lowering.lowering import streamed
from stage4_runtime.runtime import lent_memory
from stage_contracts import config

ROOT = Path(__file__).parents[2]
SMALL, NEVER = 4096, 1 << 60


def text_and_call(function, *tensors, large=SMALL):
    """The C++ of a program whose results count as large from so many bytes on, and the call."""
    with mock.patch.object(streamed, "FROM_MEMORY", large), config.patch(force_disable_caches=True):
        compiled = cutaway.compile(function, fullgraph=True)
        compiled(*tensors)
    return compiled.artifacts[-1].forward.emitted["cpp"].units[0].text, partial(seeded, compiled, *tensors)


def seeded(function, *tensors):
    cutaway.manual_seed(3)
    return function(*tensors)


def drawn(*shape, dtype="float32", skipped=0):
    """A tensor that begins `skipped` elements after its memory does."""
    draw = np.random.default_rng(14)
    flat = draw.standard_normal(skipped + int(np.prod(shape))) * 4
    return cutaway.from_numpy(flat.astype(dtype)[skipped:].reshape(shape))


X, Y, WIDE = drawn(96, 320), drawn(320, 96), drawn(48, 2048)
ROW, PLACES = drawn(320), cutaway.from_numpy(np.arange(48 * 320).reshape(48, 320) * 7 % 96)
TABLE_ROWS = cutaway.from_numpy(np.arange(120) * 31 % 96)
HALF = X.to(cutaway.bfloat16)


# name: program, tensors, how many results are written so
CASES = {
    "an odd count": (lambda x: x * 2 + 1, [drawn(5001)], 1),
    "from an odd place": (lambda x: x * 2 + 1, [drawn(96, 320, skipped=1)], 1),
    "rows and a row": (lambda x, row: x.exp() * row, [X, ROW], 1),
    "sliced": (lambda x, row: x[1:, :] - row, [X, ROW], 1),
    "every second column": (lambda x: x[:, ::2] + 1, [X], 1),
    "turned": (lambda x, y: x.T + y, [X, Y], 1),
    "turned back": (lambda x, y: (x.T * y).T.contiguous(), [X, Y], 1),
    "doubles": (lambda x: x * 3 - 1, [drawn(40, 130, dtype="float64")], 1),
    "doubles by lines": (lambda x: x.exp().cumsum(1), [drawn(40, 136, dtype="float64")], 1),
    "halves": (lambda x: F.gelu(x), [HALF], 1),
    "halves by pairs": (lambda x: x * 3 - 1, [HALF], 1),
    "halves by pairs from an odd place": (lambda x: x * 3 - 1, [drawn(96, 320, skipped=1).to(cutaway.bfloat16)], 1),
    "results of two widths": (lambda x: (x + 1, x > 0), [X], 2),
    "softmax of halves": (lambda x: F.softmax(x, -1), [WIDE.to(cutaway.bfloat16)], 1),
    "bools": (lambda x: x > 0, [WIDE], 1),
    "bytes": (lambda x: (x * 3).to(cutaway.int8), [WIDE], 1),
    "softmax": (lambda x: F.softmax(x, -1), [WIDE], 1),
    "log_softmax, unlike blocks": (lambda x: F.log_softmax(x, -1), [drawn(48, 1040)], 1),
    "layer norm": (lambda x: F.layer_norm(x, (2048,)), [WIDE], 1),
    "sums beside": (lambda x: (x.exp(), x.exp().sum(1)), [WIDE], 0),  # the sum is taken where its terms are stored
    "cumsum": (lambda x: x.cumsum(1), [WIDE], 1),
    "embedding": (lambda rows, table: F.embedding(rows, table) * 2, [TABLE_ROWS, X], 1),
    "gather": (lambda x, places: cutaway.gather(x, 0, places) + 1, [X, PLACES], 1),
    "dropout": (lambda x: F.dropout(x, 0.5, True), [WIDE], 1),
    "two results": (lambda x: (x + 1, x * 2), [X], 2),
    "columns": (lambda x: x - x.amax(0), [X], 1),
    "a row of it": (lambda x: x[0] * 2, [X], 0),  # small
    "short rows": (lambda x: x.reshape(-1, 8).T * 2, [X], 1),
    "rows no whole lines": (lambda x, row: x * row, [drawn(96, 321), drawn(321)], 0),
    "read by a product": (lambda x, y: (lambda z: (z, z @ y))(x * 2), [X, Y], 0),
    "in an input's place": (lambda x: x.mul_(1.0), [X], 0),
}  # fmt: skip


def bits(result):
    parts = result if isinstance(result, tuple) else (result,)
    return b"".join(np.ascontiguousarray(part.detach().numpy()).tobytes() for part in parts)


@pytest.fixture(autouse=True)
def from_lines(monkeypatch):
    monkeypatch.setattr(lent_memory, "FROM_MEMORY", SMALL)


@pytest.mark.parametrize("name", CASES)
def test_values_and_which_are_written_so(name):
    function, tensors, count = CASES[name]
    text, call = text_and_call(function, *tensors)
    assert len(re.findall(r"cutaway::stream(?:_lines)?\(&", text)) == count, text
    got, wanted = call(), seeded(function, *tensors)
    for ours, eager in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, wanted)), strict=True):
        mine, theirs = (t.to(cutaway.float64).numpy() for t in (ours, eager))
        within = 0 if not ours.is_floating_point() else 1e-2 if ours.dtype is cutaway.bfloat16 else 3e-6
        np.testing.assert_allclose(mine, theirs, rtol=10 * within, atol=within * np.abs(theirs).max())


LINES = [
    "rows and a row",
    "turned",
    "layer norm",
    "embedding",
    "gather",
    "dropout",
    "halves by pairs",
    "bools",
]


@pytest.mark.parametrize("name", LINES)
def test_rows_of_whole_lines_go_from_registers(name):
    """Their loops make one line, and no array of more is between it and memory."""
    function, tensors, _ = CASES[name]
    text, _ = text_and_call(function, *tensors)
    assert "cutaway::stream_lines(&" in text and "cutaway::stream(&" not in text


@pytest.mark.parametrize(
    "name", ["an odd count", "turned", "layer norm", "halves by pairs", "results of two widths"]
)
def test_the_bits_of_plain_stores(name):
    function, tensors, _ = CASES[name]
    text, call = text_and_call(function, *tensors, large=NEVER)
    assert "cutaway::stream" not in text
    assert bits(call()) == bits(text_and_call(function, *tensors)[1]())


IDS = np.arange(120) * 31 % 96
# name: program, rows, how many tables it asks for
TABLES = {
    "rows": (lambda rows, table: F.embedding(rows, table) * 2, IDS, 1),
    "a table twice": (lambda rows, table: F.embedding(rows, table) + F.embedding(rows, table * 2), IDS, 1),
    "rows of rows": (lambda rows, table: F.embedding(rows, table) + 1, IDS.reshape(3, 40), 0),  # found in a loop before
    "one row": (lambda rows, table: F.embedding(rows, table.reshape(6, -1)) + 1, IDS[:1] % 6, 0),
    "from the end": (lambda rows, table: table[rows] - 1, IDS - 96, 1),
    "a place for each element": (lambda rows, table: cutaway.gather(table, 0, rows), np.arange(40 * 320).reshape(40, 320) * 7 % 96, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_a_table_are_asked_for(name):
    function, rows, asked = TABLES[name]
    tensors = [cutaway.from_numpy(np.ascontiguousarray(rows)), X]
    text, call = text_and_call(function, *tensors)
    assert text.count("cutaway::prefetch(&") == asked, text
    np.testing.assert_allclose(call().numpy(), function(*tensors).numpy(), rtol=1e-6)
    rows = np.array(rows)
    rows.flat[-1] = 96
    with pytest.raises((IndexError, RuntimeError)):  # as eager
        text_and_call(function, cutaway.from_numpy(rows), X)


def test_open_sizes_are_written_plainly():
    compiled = cutaway.compile(lambda x: x * 2, dynamic=True)
    with mock.patch.object(streamed, "FROM_MEMORY", SMALL), config.patch(force_disable_caches=True):
        compiled(X)
    assert "cutaway::stream" not in compiled.artifacts[-1].forward.emitted["cpp"].units[0].text


def differing():
    """The programs of which some run gave other bits than the first."""
    lent_memory.FROM_MEMORY, found = SMALL, []
    wide = drawn(1024, 768)  # threads share it
    for name, tensors in {
        "softmax": [wide],
        "turned": [wide, wide.T.contiguous()],
        "dropout": None,
    }.items():
        function, few, _ = CASES[name]
        text, call = text_and_call(function, *(tensors or few))
        assert "cutaway::streamed();" in text and ("omp parallel" in text or not tensors)
        found += [name] * (len({bits(call()) for _ in range(100)}) > 1)
    return found


def test_a_hundred_runs_give_the_same_bits():
    done = subprocess.run(
        [sys.executable, __file__], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "4", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


if __name__ == "__main__":
    print(differing())
