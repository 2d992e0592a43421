"""Everything about NumPy programs at length: `make numpy` runs this and keeps what it prints in reports/numpy.txt.

Input: the tables beside this file; `--quick` takes a twentieth. Lines of calls.py on dtypes and layouts, every program on every backend, and random
programs; ends with an error when one differs from NumPy.
"""

import sys
import time
import warnings

from hypothesis import HealthCheck, given, seed, settings

from stage_contracts import events
from stage_contracts.tests.report_heading import heading
from tests.numpy_programs import test_numpy_functions as functions
from tests.numpy_programs import test_numpy_programs as programs
from tests.numpy_programs import test_numpy_random as randoms
from tests.numpy_programs.calls import FAMILIES
from tests.numpy_programs.compare import observe
from tests.numpy_programs.registry import PROGRAMS

EVERY = 20 if "--quick" in sys.argv[1:] else 1  # each so many lines and programs
RANDOM, SEED = 500 // EVERY, 20
# backend -> the dtypes and layouts that every line runs on
CALLS = {
    "eager": (functions.DTYPES, tuple(functions.LAYOUTS)),
    "aot_eager": (("float64", "int32", "bool"), ("strided",)),
}


def all_calls(backend):
    """(lines, runs, captured whole, left to NumPy in part, refused by NumPy itself, failures)."""
    runs = captured = refused = 0
    failures = []
    for lines in FAMILIES.values():
        for line in lines[::EVERY]:
            for dtype in CALLS[backend][0]:
                for layout in CALLS[backend][1]:
                    runs += 1
                    try:
                        if functions.check(line, dtype, layout, backend):
                            captured += 1
                        elif observe(functions.function_of(line), functions.operands(dtype, layout)).error:
                            refused += 1
                    except AssertionError as problem:
                        failures.append(str(problem).partition("\n")[0])
    return (
        sum(map(len, FAMILIES.values())),
        runs,
        captured,
        runs - captured - refused - len(failures),
        refused,
        failures,
    )


def all_programs(backend):
    """What differs, of every program."""
    failures = []
    for name in list(PROGRAMS)[::EVERY]:
        try:
            programs.check(name, backend, exact=backend == "eager")
        except AssertionError as problem:
            failures.append(f"{name}: {str(problem).partition(chr(10))[0]}")
    return failures


def random_programs():
    done = []

    @seed(SEED)
    @settings(max_examples=RANDOM, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(randoms.programs())
    def run(made):
        done.append(made)
        randoms.check(*made, "eager", exact=True)

    run()
    return len(done)


def main():
    warnings.simplefilter("ignore")
    start, failures = time.time(), []
    print(heading("NumPy programs, compiled, against NumPy", "make numpy", SEED))
    for backend, (dtypes, layouts) in CALLS.items():
        lines, runs, captured, left, refused, wrong = all_calls(backend)
        print(
            f"{backend}: {lines} calls on {len(dtypes)} dtypes and {len(layouts)} layouts: {runs} runs, {captured} captured whole, "
            f"{left} left to NumPy in part, {refused} errors of NumPy's own, {len(wrong)} differ"
        )
        failures += wrong
    for backend in ("eager", "aot_eager", "inductor"):
        wrong = all_programs(backend)
        print(f"{backend}: {len(list(PROGRAMS)[::EVERY])} programs, {len(wrong)} differ")
        failures += wrong
    print(f"{random_programs()} random programs from seed {SEED}, none differs")
    print("\n".join(failures))
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    with events.no_internal_errors():
        failed = main()
    sys.exit(failed)
