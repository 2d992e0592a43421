"""The rules of the architecture that no linter knows: what a package holds, how files open, what tests import.

Input: the files of the repository. Imports between packages are ruled in pyproject.toml (import-linter).
"""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAGES = ("stage0_eager", "stage1_capture", "stage2_autograd", "stage3_lowering", "stage4_runtime")
PACKAGES = ("cutaway", "labs", "stage_contracts", *STAGES)
FILES = sorted(path for package in (*PACKAGES, "tests") for path in (ROOT / package).rglob("*.py"))

# What the tests inside a package may import: what its code may, so that they run without the other stages.
BELOW = {
    "stage_contracts": {"stage_contracts"},
    "stage0_eager": {"stage_contracts", "stage0_eager"},
    **{stage: {"stage_contracts", "stage0_eager", stage} for stage in STAGES[1:]},
}


def name_of(path):
    return str(path.relative_to(ROOT)) if isinstance(path, Path) else path


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed(package):
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_has_its_page_and_its_tests(stage):
    missing = [name for name in ("README.md", "tests") if not (ROOT / stage / name).exists()]
    assert not missing, f"{stage} lacks {missing}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_opens_with_what_it_is_and_stays_short(path):
    text = path.read_text(encoding="utf-8")
    lines = text.count("\n")
    assert lines <= 500, f"{lines} lines; expected at most 500. Split it where it has two ideas."
    assert not text.strip() or ast.get_docstring(ast.parse(text)), (
        "expected a docstring: what it is, from what input"
    )


@pytest.mark.parametrize("package", BELOW)
def test_a_stages_tests_import_no_other_stage(package):
    wrong = []
    for path in (ROOT / package).rglob("tests/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            wrong += [
                f"{name_of(path)}:{node.lineno} imports {name}"
                for name in names
                if name.split(".")[0] in PACKAGES and name.split(".")[0] not in BELOW[package]
            ]
    assert not wrong, "\n".join(wrong)


def test_the_wheel_holds_every_package_and_the_labs_inside_cutaway():
    """`labs` is no name to take from everybody's site-packages."""
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["packages"]) == set(PACKAGES) - {"labs"}
    assert wheel["force-include"] == {"labs": "cutaway/labs"}


@pytest.mark.timeout(400)
def test_every_seam_has_conformance_tests_and_the_default_passes_them():
    """Each default, swapped for itself: so manifests name every seam and promise no test that is absent. The tests of
    the other tiers run on the defaults in any case."""
    from stage_contracts.pipeline import DEFAULT_SEAMS

    swaps = [part for seam, target in DEFAULT_SEAMS.items() for part in ("--swap", f"{seam}={target}")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tier",
        "first",
        *STAGES[1:],
        *swaps,
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
