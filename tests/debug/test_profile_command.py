"""`cutaway profile`: what a step costs, where the time went, and that the advice names what was planted.

Input: functions whose bytes and operations can be counted by hand; one script for each advice, in which that is slow.
"""

import re

import pytest
from click.testing import CliRunner

import cutaway
from cutaway import cli, profiler
from cutaway.profiler.advice import RULES, best_advice
from cutaway.profiler.costs import Cost, cost
from cutaway.profiler.peaks import Peaks
from cutaway.profiler.where_time_goes import PARTS, kernel_times, time_spent

N, K = 64, 16
FAST = Peaks(((1, 1e12),), {"float32": 1e13})
COSTS = {  # function, shapes, bytes, operations
    "sum of two": (lambda x, y: x + y, [(N, K), (N, K)], 3 * 4 * N * K, N * K),
    "a row for every row": (lambda x, y: x * y, [(N, K), (K,)], 4 * (2 * N * K + K), N * K),
    "every second row": (lambda x: x[::2].sin(), [(N, K)], 4 * 2 * (N // 2) * K, N // 2 * K),
    "an array read twice": (lambda x: (x + 1) * x, [(N, K)], 4 * 2 * N * K, 2 * N * K),
    "a row sum": (lambda x: x.sum(1), [(N, K)], 4 * (N * K + N), N * K),
    "a product": (
        lambda x, y: (x @ y).sin(),
        [(N, K), (K, N)],
        4 * (2 * N * K + 3 * N * N),
        2 * N * N * K + N * N,
    ),
}


def recorded(function, *inputs, calls=1, **options):
    compiled = cutaway.compile(function, **options)
    compiled(*inputs)
    with profiler.profile() as prof:
        for _ in range(calls):
            compiled(*inputs)
    return [event for event in prof.events() if event.source]


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_bytes_and_operations(name, dynamic):
    function, shapes, nbytes, flops = COSTS[name]
    events = recorded(function, *map(cutaway.randn, shapes), dynamic=dynamic)
    costs = [cost(*event.source, event.sizes) for event in events]
    if any(event.name.endswith(" by rows") for event in events):
        nbytes -= 2 * 4 * N * N  # the product stays in the cache
    assert sum(found.nbytes for found in costs) == nbytes
    assert sum(found.flops for found in costs) == flops


def test_blocks_of_rows_count_their_products_and_no_scores():
    def attention(q, k, v):
        return cutaway.nn.functional.scaled_dot_product_attention(q, k, v)

    heads, length, width = 6, 256, 32
    inputs = [cutaway.randn(2, heads // 2, length, width) for _ in range(3)]
    event = recorded(attention, *inputs)[-1]
    found = cost(*event.source)
    assert event.name.endswith(" by rows") and found.nbytes == 4 * 4 * heads * length * width
    products = 2 * 2 * heads * length * length * width
    assert products < found.flops < 1.25 * products  # and the softmax


def test_a_product_alone():
    """No kernel, so no call of C++: Python calls BLAS."""
    (event,) = recorded(lambda x, y: x @ y, cutaway.randn(N, K), cutaway.randn(K, N))
    assert cost(*event.source) == Cost(4 * (2 * N * K + N * N), 2 * N * N * K)


def test_an_open_size_that_nobody_knows_has_no_cost():
    (event,) = recorded(lambda x: x + 1, cutaway.randn(N), dynamic=True)
    assert event.sizes and cost(*event.source) is None and cost(*event.source, event.sizes) == Cost(8 * N, N)


def test_the_roofline():
    peaks = Peaks(((1 << 10, 4e9), (1 << 20, 2e9)), {"float32": 1e9, "float64": 5e8})
    moves, computes = Cost(1 << 20, 10), Cost(1 << 10, 10**6)
    assert (peaks.bound(moves), peaks.bound(computes)) == ("memory", "compute")
    assert peaks.least_seconds(moves) == (1 << 20) / 2e9 and peaks.least_seconds(computes) == 1e-3
    assert peaks.least_seconds(computes, "float64") == 2e-3
    assert (
        peaks.bandwidth(1 << 14) == 4e9
        and peaks.bandwidth(1 << 16) == 2e9 == peaks.bandwidth(1 << 30) == peaks.memory
    )


def test_the_parts_are_the_whole_and_a_kernel_counts_its_runs():
    compiled, x = cutaway.compile(lambda x: (x @ x).relu()), cutaway.randn(32, 32)
    compiled(x)
    with profiler.profile() as prof:
        for _ in range(5):
            compiled(x)
    events = prof.events()
    whole = sum(event.duration_ns for event in events if event.parent is None) / 1e9
    spent = time_spent(events, whole + 1, events[0].thread, FAST)
    assert set(spent.parts) == set(PARTS) and sum(spent.parts.values()) == pytest.approx(spent.seconds)
    assert spent.parts["kernels"] > 0 and spent.parts["libraries"] > 0 and spent.parts["outside"] > 0.9
    rows = kernel_times(events, FAST)
    assert [row.count for row in rows] == [5, 5] and all(0 < row.share <= 1 for row in rows)
    assert sum(row.seconds for row in rows) == pytest.approx(
        spent.parts["kernels"] + spent.parts["libraries"]
    )


# ---- the command ------------------------------------------------------------------------------------------------------

HEAD = "import time\nimport cutaway\nx = cutaway.randn(8, 8)\n"
SCRIPTS = {  # rule -> what is slow, and words of the advice
    "recompiles": ("@cutaway.compile(dynamic=False)\ndef f(x):\n    return x.sin() + 1\n"
                   "for n in range(6):\n    f(cutaway.ones(n + 2))\n", "mark_dynamic"),
    "breaks": ("@cutaway.compile\ndef f(x):\n    for _ in range(4):\n        x = x + 1\n"
               "        cutaway.compiler.graph_break()\n    return x\nfor _ in range(300):\n    f(x)\n", "graph breaks in `f`"),
    "outside": ("f = cutaway.compile(lambda x: x + 1)\nfor _ in range(3):\n    f(x)\n    time.sleep(0.1)\n",
                "compile more of the loop"),
    "small_calls": ("@cutaway.compile\ndef f(x):\n    return x + 1\nfor _ in range(3000):\n    f(x)\n", "more work"),
    "slow_kernel": ("f = cutaway.compile(lambda x: x.sin().exp().tan().erf())\nbig = cutaway.ones(1 << 19)\n"
                    "for _ in range(20):\n    f(big)\n", "fused_"),
}  # fmt: skip


def profiled(tmp_path, text, *options):
    (tmp_path / "script.py").write_text(HEAD + text)
    return CliRunner().invoke(cli.main, ["profile", *options, str(tmp_path / "script.py")])


@pytest.mark.parametrize("rule", SCRIPTS)
def test_the_advice_names_what_was_planted(tmp_path, rule):
    text, words = SCRIPTS[rule]
    result = profiled(tmp_path, text, *["--steady"] * (rule != "recompiles"))
    assert result.exit_code == 0, result.output
    advice = result.output.partition("What would pay most:")[2]
    assert words.lower() in advice.lower() and "At best it saves" in advice


def test_the_report_and_the_trace(tmp_path):
    result = profiled(tmp_path, SCRIPTS["breaks"][0] + "print('done')", "--trace", str(tmp_path / "t.json"))
    assert result.stdout == "done\n" and (tmp_path / "t.json").stat().st_size > 1000
    for part, (meaning, _) in PARTS.items():
        assert re.search(rf"^{part} .* {re.escape(meaning)}", result.stderr, re.M)
    assert "fused_add_0" in result.stderr and "script.py:7" in result.stderr and "GFLOP/s" in result.stderr


def test_what_the_script_does_stays_its_own(tmp_path):
    text = "import sys\nassert __name__ == '__main__'\nprint(sys.argv[1:])\nsys.exit(3)"
    (tmp_path / "script.py").write_text(text)
    result = CliRunner().invoke(cli.main, ["profile", str(tmp_path / "script.py"), "--rows", "a"])
    assert (result.exit_code, result.stdout) == (3, "['--rows', 'a']\n")
    failed = profiled(tmp_path, "raise ValueError('the script failed')")
    assert failed.exit_code == 1 and "ValueError: the script failed" in failed.output
    assert "profile_command" not in failed.output and "Where " in failed.output


def test_a_run_without_anything_to_change():
    assert best_advice(time_spent([], 0.0, 0, FAST)).startswith("No one change")
    assert len(RULES) == len(SCRIPTS) + 1  # compiling: in every run that is not --steady
