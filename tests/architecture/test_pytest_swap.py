"""The --swap plugin, run on a small repository of its own: one stage, two seams, a manifest.

Input: pytester's temporary folder, with a stage_contracts.pipeline of its own. Each run is a process, so
that the real contracts, perhaps imported here already, are not what it finds.
"""

import json
from pathlib import Path

import pytest

import cutaway

pytest_plugins = ["pytester"]
ROOT = Path(cutaway.__file__).parent.parent

# The real contracts, with the seams of another repository.
PACKAGE = f"__path__.append({str(ROOT / 'stage_contracts')!r})"
CONTRACTS = f"""
exec(compile(open({str(ROOT / "stage_contracts/pipeline.py")!r}).read(), "pipeline.py", "exec"))
DEFAULT_SEAMS = {{
    "halve": "stage9.tiny:halve",
    "total": "stage9.tiny:total",
    "emit": "absent_stage.tiny:emit",
}}
INNER_SEAMS = {{}}
"""

STAGE = """
def halve(numbers):
    return [n for n in numbers if n < 0], [n for n in numbers if n >= 0]

def total(numbers):
    return sum(numbers)
"""

TESTS = """
import pytest

@pytest.mark.conformance("halve", tier="core")
def test_splits(seam):
    assert seam.halve([1, -1]) == ([-1], [1])

@pytest.mark.conformance("halve")
@pytest.mark.parametrize("n", [1, 2])
def test_keeps_everything(seam, n):
    assert sum(map(len, seam("halve")([1] * n))) == n

@pytest.mark.conformance("total", tier="core")
def test_adds(seam):
    assert seam.total([1, 2]) == 3

def test_ordinary():
    pass
"""

MINE = """
def halve(numbers):
    print("MINE WAS CALLED")
    return [n for n in numbers if n < 0], [n for n in numbers if not n < 0]

def loses_one(numbers):
    return [n for n in numbers if n < 0], [n for n in numbers if n > 1]

SEVEN = 7

class Holder:
    halve = staticmethod(halve)
"""


@pytest.fixture
def repository(pytester, monkeypatch):
    # Only the plugins named below: quick, and the same whether or not cutaway is installed.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyprojecttoml(
        '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = "."'
    )
    write(pytester, "stage_contracts/__init__.py", PACKAGE)
    write(pytester, "stage_contracts/pipeline.py", CONTRACTS)
    write(pytester, "stage9/__init__.py", "")
    write(pytester, "stage9/tiny.py", STAGE)
    write(pytester, "stage9/tests/test_tiny.py", TESTS)
    manifest(pytester, halve={"first": 1, "core": 1, "full": 3}, total={"first": 1, "core": 1, "full": 1})
    write(pytester, "mine.py", MINE)
    return pytester


def write(repository, name, text):
    path = repository.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def manifest(repository, **counts):
    write(repository, "stage9/tests/conformance.json", json.dumps(counts))


def run(repository, *arguments):
    # `python -m pytest` puts the folder first on the path: its stage_contracts hides the real one.
    return repository.runpytest_subprocess("stage9", "-p", "cutaway.pytest_swap", *arguments)


def test_without_a_swap_everything_runs_on_the_default(repository):
    run(repository).assert_outcomes(passed=5)


def test_tier_core_leaves_out_the_full_tier(repository):
    run(repository, "--tier", "core").assert_outcomes(passed=3, deselected=2)


def test_a_swap_runs_that_seams_tests_on_that_implementation(repository):
    result = run(repository, "--swap", "halve=mine:halve", "-s")
    result.assert_outcomes(passed=3, deselected=2)
    assert result.stdout.str().count("MINE WAS CALLED") == 3
    result.stdout.fnmatch_lines(["swapped: halve = mine:halve (tier full)"])
    result.stdout.fnmatch_lines(["seam `halve` (mine:halve): 3 full conformance tests ran*"])
    assert result.ret == 0


@pytest.mark.parametrize("target", ["mine.py:halve", "./mine.py:Holder.halve", "mine:Holder.halve"])
def test_a_swap_may_name_a_file_or_an_attribute(repository, target):
    result = run(repository, "--swap", f"halve={target}", "--tier", "core", "-s")
    result.assert_outcomes(passed=1, deselected=4)
    result.stdout.fnmatch_lines(["*MINE WAS CALLED*"])


def test_two_swaps(repository):
    result = run(repository, "--swap", "halve=mine:halve", "--swap", "total=stage9.tiny:total")
    result.assert_outcomes(passed=4, deselected=1)


def test_a_wrong_implementation_fails_and_the_seam_is_named(repository):
    result = run(repository, "--swap", "halve=mine:loses_one")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "seam `halve` (mine:loses_one) failed: *",
            "FAILED *test_splits - seam `halve` (mine:loses_one) failed: *",
        ]
    )


def test_a_failing_default_is_named_too(repository):
    write(repository, "stage9/tiny.py", STAGE.replace("sum(numbers)", "0"))
    run(repository).stdout.fnmatch_lines(["FAILED *test_adds - seam `total` (stage9.tiny:total) failed: *"])


BOTH = """
import pytest

@pytest.mark.conformance("halve", "total", tier="first")
def test_nothing_is_lost(seam):
    '''What the halves hold adds up to the whole.

    Two seams together.
    '''
    assert sum(map(seam.total, seam.halve([1, -1, 3]))) == 3

@pytest.mark.conformance("halve", goal="good")
def test_one_half_is_enough_for_all(seam):
    assert [] in seam.halve([1, -1])
"""


def test_only_the_swapped_seam_is_blamed_with_the_rule_it_broke(repository):
    write(repository, "stage9/tests/test_both.py", BOTH)
    result = run(repository, "--swap", "halve=mine:loses_one", "--tier", "first")
    result.stdout.fnmatch_lines(
        [
            "seam `halve` (mine:loses_one) failed: *",
            "*rule of the contract*",
            "What the halves hold adds up to the whole.",
            "FAILED *test_nothing_is_lost - seam `halve` (mine:loses_one) failed: *",
        ]
    )
    assert "seam `total`" not in result.stdout.str()


def test_good_is_told_apart_from_correct(repository):
    write(repository, "stage9/tests/test_both.py", BOTH)
    manifest(repository, halve={"first": 2, "core": 2, "full": 5})
    result = run(repository, "--swap", "halve=mine:halve")
    result.stdout.fnmatch_lines(
        ["seam `halve` *: 5 full conformance tests ran; correct: 4 of 4; good: 0 of 1"]
    )
    result.stdout.fnmatch_lines(["One half is enough for all."])
    core = run(repository, "--swap", "halve=mine:halve", "--tier", "core")
    core.assert_outcomes(passed=2, deselected=5)
    assert core.ret == 0


def test_works_in_parallel(repository):
    pytest.importorskip("xdist")
    result = run(repository, "--swap", "halve=mine:loses_one", "-p", "xdist", "-n", "2")
    result.stdout.fnmatch_lines(["FAILED *test_splits - seam `halve` (mine:loses_one) failed: *"])
    result.stdout.fnmatch_lines(["seam `halve` (mine:loses_one): 3 full conformance tests ran*"])
    assert result.ret == 1


@pytest.mark.parametrize(
    ("swap", "message"),
    [
        ("halve", "*got 'halve'; expected SEAM=module:object*"),
        ("halve=mine", "*'mine' does not name an object; expected module:object*"),
        ("halv=mine:halve", "*no seam 'halv'; expected one of halve, total, emit"),
        ("halve=nowhere:f", "*no module 'nowhere'*give the file as path/to/file.py:object"),
        ("halve=nowhere.py:f", "*there is no file */nowhere.py; give the path of a Python file*"),
        ("halve=mine:partitoin", "*mine has no 'partitoin'; it defines halve, loses_one, Holder"),
        (
            "halve=mine:SEVEN",
            "*mine:SEVEN is of type int and not callable; expected a function with the seam's*",
        ),
        (
            "halve=broken:f",
            "*importing broken raised ZeroDivisionError: division by zero (*broken.py:2)*",
        ),
        ("halve=broken.py:f", "*importing broken.py raised ZeroDivisionError: * (*broken.py:2)*"),
        ("halve=unparsable:f", "*importing unparsable raised SyntaxError: *unparsable.py:1)*"),
        (
            "halve=needs:f",
            "*importing needs raised ModuleNotFoundError: No module named 'not_there' (*needs.py:1)*",
        ),
    ],
)
def test_a_swap_that_cannot_be_done_is_one_clear_line(repository, swap, message):
    write(repository, "broken.py", "def f(): pass\n1 / 0\n")
    write(repository, "unparsable.py", "def f(:\n")
    write(repository, "needs.py", "import not_there\n")
    result = run(repository, "--swap", swap)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = [line for line in result.errlines if line.strip()]
    assert len(said) == 1, said
    result.stderr.fnmatch_lines(["ERROR: " + message])


def test_one_seam_swapped_twice_is_refused(repository):
    result = run(repository, "--swap", "halve=mine:halve", "--swap", "halve=mine:loses_one")
    result.stderr.fnmatch_lines(["ERROR: *'halve' already; give each seam once*"])


def test_a_run_that_collects_too_little_fails(repository):
    manifest(repository, halve={"first": 1, "core": 1, "full": 4})
    result = run(repository, "--swap", "halve=mine:halve")
    result.assert_outcomes(passed=3, deselected=2)
    result.stdout.fnmatch_lines(
        ["FAILED seam `halve` *: 3 full conformance tests ran; correct: 3 of 3; expected at least 4 *"]
    )
    assert result.ret == 1


def test_a_run_that_collects_nothing_fails(repository):
    (repository.path / "stage9/tests/test_tiny.py").unlink()
    manifest(repository, halve={"first": 0, "core": 0, "full": 0})
    result = run(repository, "--swap", "halve=mine:halve")
    result.stdout.fnmatch_lines(
        ["FAILED seam `halve` *: 0 full conformance tests ran; expected at least 1 *"]
    )
    assert result.ret == 1


def test_skipped_tests_do_not_count(repository):
    write(
        repository,
        "stage9/tests/test_tiny.py",
        TESTS.replace("seam.halve([1", "pytest.skip() or seam.halve([1"),
    )
    result = run(repository, "--swap", "halve=mine:halve")
    result.stdout.fnmatch_lines(
        ["FAILED *2 full conformance tests ran; correct: 2 of 2, 1 were skipped*expected at least 3 *"]
    )
    assert result.ret == 1


def test_a_seam_that_no_manifest_names_fails(repository):
    manifest(repository, total={"first": 1, "core": 1, "full": 1})
    result = run(repository, "--swap", "halve=mine:halve")
    result.stdout.fnmatch_lines(["FAILED seam `halve`: no conformance.json under stage9 says how many*"])
    assert result.ret == 1


def test_a_run_the_user_narrowed_is_not_counted(repository):
    result = run(repository, "--swap", "halve=mine:halve", "-k", "splits")
    result.stdout.fnmatch_lines(["*you selected some tests, so the number of tests was not checked"])
    assert result.ret == 0


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            '@pytest.mark.conformance("halv")\ndef test_x(seam): pass',
            "*names 'halv'; expected at least one of*",
        ),
        ("@pytest.mark.conformance()\ndef test_x(seam): pass", "*names no seam; expected at least one of*"),
        (
            '@pytest.mark.conformance("total", tier="all")\ndef test_x(seam): pass',
            "*expected a tier of first, core, full*",
        ),
        ('@pytest.mark.conformance("total")\ndef test_x(): pass', "*without the `seam` fixture*"),
        (
            '@pytest.mark.conformance("total", goal="fast")\ndef test_x(seam): pass',
            "*a goal of correct, good*",
        ),
        (
            '@pytest.mark.conformance("total", tier="core", goal="good")\ndef test_x(seam): pass',
            "*below the tier full*",
        ),
        (
            '@pytest.mark.conformance("total", level=3)\ndef test_x(seam): pass',
            "*expected only a tier and a goal",
        ),
    ],
)
def test_a_wrong_mark_is_an_error(repository, test, message):
    write(repository, "stage9/tests/test_marks.py", f"import pytest\n\n{test}\n")
    result = run(repository)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: stage9/tests/test_marks.py::test_x: its mark `conformance` " + message]
    )


def test_a_seam_whose_stage_is_absent_fails_only_its_own_tests(repository):
    emit = '@pytest.mark.conformance("emit")\ndef test_emit(seam):\n    seam.emit()\n'
    write(repository, "stage9/tests/test_emit.py", f"import pytest\n\n{emit}")
    result = run(repository)
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["*the default of seam `emit`: no module 'absent_stage'*"])
