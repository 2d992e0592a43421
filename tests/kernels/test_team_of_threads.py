"""Products of a compiled program on a CPU: one team of threads shares them, and BLAS's own threads stay out.

Input: products of every layout and of sizes that no number of threads divides, in teams of one thread to more than
there are rows; a fresh process whose BLAS has threads of its own, which tells what they did.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage4_runtime.runtime.segment_calls import blas_threads
from tests.kernels.teams import team

ROOT = Path(__file__).parents[2]
TEAMS = (1, 2, 3, 7, 40)
RNG = np.random.default_rng(3)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def turned(array):
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


# name: (a, b): the least work that a team gets is far below these, but for the last two
PRODUCTS = {
    "plain": (normal(301, 129), normal(129, 203)),
    "both transposed": (turned(normal(301, 129)), turned(normal(129, 203))),
    "doubles": (normal(330, 167, dtype=np.float64), turned(normal(167, 131, dtype=np.float64))),
    "few rows": (normal(3, 2_000), normal(2_000, 517)),
    "few columns": (normal(517, 2_000), normal(2_000, 3)),
    "small and deep": (normal(5, 90_000), normal(90_000, 6)),
    "matrix and vector": (normal(1700, 801), normal(801, 1)),
    "transposed matrix and vector": (turned(normal(1700, 801)), normal(801, 1)),
    "vector and matrix": (normal(1, 801), normal(801, 1700)),
    "vector and transposed matrix": (normal(1, 801), turned(normal(801, 1700))),
    "two vectors": (normal(1, 90_000), normal(90_000, 1)),
    "batch": (normal(5, 95, 96), normal(5, 96, 97)),
    "batch of 1": (normal(1, 130, 131), normal(1, 131, 132)),
    "a matrix for all of a batch": (normal(3, 2, 95, 96), normal(96, 97)),
    "batch of vectors": (normal(4, 1, 400), normal(4, 400, 701)),
    "slices": (normal(200, 180)[3:, 5:], normal(180, 160)[5:, :151]),
    "tiny": (normal(3, 4), normal(4, 5)),
    "empty": (normal(0, 40), normal(40, 50)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "open"])
def test_each_team_gives_the_product(name, dynamic):
    a, b = PRODUCTS[name]
    names = {"b1": cutaway.from_numpy(a), "at": cutaway.from_numpy(b)}  # names that the C++ would take, too
    run = cutaway.compile(lambda b1, at: (b1 @ at, at + 1), fullgraph=True, dynamic=dynamic)
    want = a.astype(np.float64) @ b.astype(np.float64)
    tolerance = (1e-5 if a.dtype == np.float32 else 1e-13) * np.sqrt(a.shape[-1])
    for count in TEAMS:
        with team(count):
            found = [run(**names)[0].numpy() for _ in range(2)]
        np.testing.assert_allclose(found[0], want, atol=tolerance, err_msg=f"{count} threads")
        np.testing.assert_array_equal(found[0], found[1], err_msg=f"two runs with {count} threads")
    text = run.artifacts[-1].forward.emitted["cpp"].units[-1].text
    assert name == "empty" or "host.sgem" in text or "host.dgem" in text, "C++ calls BLAS"


def block(x, w, v):
    """What the compiler runs by blocks of rows: two products, with loops between and after."""
    return F.softmax(F.gelu(x @ w) @ v, -1)


@pytest.mark.parametrize("rows", [32, 37, 260, 1021])
def test_each_team_gives_the_blocks_of_rows(rows):
    x, w, v = normal(rows, 100), normal(100, 300) / 10, normal(300, 90) / 10
    given = [cutaway.from_numpy(a) for a in (x, w, v)]
    want = block(*given).numpy()
    run = cutaway.compile(block, fullgraph=True)
    for count in TEAMS:
        with team(count):
            np.testing.assert_allclose(run(*given).numpy(), want, atol=1e-5, err_msg=f"{count} threads")


# ---- in a process of its own, whose BLAS has two threads --------------------------------------------------------------

needs_threads = pytest.mark.skipif(
    sys.platform != "linux" or not blas_threads() or os.cpu_count() == 1,
    reason="it reads /proc, and OpenBLAS's number of threads",
)


def work_of_threads():
    """Nanoseconds on a core of each thread of this process, by its number."""
    tasks = Path("/proc/self/task")
    return {int(task.name): int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()}


def blas_while_programs_run():
    """What a program with every kind of product leaves BLAS's threads to do; BLAS's number of threads meanwhile and
    after, also where the program ends with an error."""
    threads = blas_threads()["get_blas_threads"]
    x, w = (cutaway.from_numpy(normal(*shape)) for shape in ((640, 640), (640, 640)))
    image, kernel = cutaway.from_numpy(normal(2, 16, 40, 40)), cutaway.from_numpy(normal(16, 24, 3, 3))
    places = cutaway.from_numpy(np.array([1, 2_000]))

    def program(x, w, image, kernel):
        y = block(x, w, w) + x @ w[:, :1]
        return y, x.T @ w, F.conv_transpose2d(image, kernel, stride=2, padding=1)

    run, fails = (
        cutaway.compile(program, fullgraph=True),
        cutaway.compile(lambda x, p: (x @ x)[p], fullgraph=True),
    )
    np.matmul(x.numpy(), w.numpy())  # from here on BLAS has its threads
    own = [number for number in work_of_threads() if number != os.getpid()]
    run(x, w, image, kernel)
    seen, ends, before = set(), threading.Event(), work_of_threads()

    def look():
        while not ends.is_set():
            seen.add(threads())

    for _ in range(3):
        run(x, w, image, kernel)
    worked = sum(work_of_threads()[number] - before[number] for number in own) / 1e6
    looking = threading.Thread(target=look)
    looking.start()
    for _ in range(20):
        run(x, w, image, kernel)
    ends.set()
    looking.join()
    after = [threads()]
    try:
        fails(x, places)
    except IndexError:
        after.append(threads())
    many = [threading.Thread(target=lambda: [run(x, w, image, kernel) for _ in range(20)]) for _ in range(4)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    after.append(threads())
    return {"own": len(own), "worked": worked, "seen": sorted(seen), "after": after}


@needs_threads
def test_blas_works_in_the_threads_that_ask_for_it():
    number = {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "OPENBLAS_THREAD_TIMEOUT": "4"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.test_team_of_threads"],
        cwd=ROOT, env=os.environ | number, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["own"] == 1 and 1 in found["seen"]
    assert found["after"] == [2, 2, 2], "NumPy's own products have their threads back"
    assert found["worked"] < 1, "milliseconds of BLAS's own threads while a program runs"


def test_programs_in_several_threads_of_python_give_what_one_gives():
    x, w = (cutaway.from_numpy(normal(200, 200)) for _ in range(2))
    run = cutaway.compile(lambda x, w: (block(x, w, w), x.T @ w), fullgraph=True)
    want, wrong = [a.numpy().copy() for a in run(x, w)], []

    def again():
        for _ in range(30):
            wrong.extend(a for a, b in zip(run(x, w), want, strict=True) if (a.numpy() != b).any())

    many = [threading.Thread(target=again) for _ in range(4)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    assert not wrong


if __name__ == "__main__":
    print(json.dumps(blas_while_programs_run()))
