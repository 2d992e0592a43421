"""The pytest plugin: runs a stage's conformance tests on your implementation of a seam.

Input: `pytest stage2_autograd --swap partition=my_module:my_partition [--tier first|core|full]`, tests marked
`@pytest.mark.conformance("partition", tier="first")`, and each stage's `tests/conformance.json`, which says how many
must run: {"partition": {"first": 3, "core": 5, "full": 12}}, where a tier includes those before it. A run without
tests is an error. The tiers `first` and `core` ask whether an implementation is correct; whether it is good too (few
kernels, few bytes saved) is asked by the tests marked `goal="good"`, in `full` alone, and told apart.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cutaway import swap
from stage_contracts.errors import SeamError
from stage_contracts.seam_checks import checked_seam

TIERS = {
    "first": "what a naive version passes: no fusion, guards on types and shapes alone, all values saved",
    "core": "what the tiny version of each stage passes",
    "full": "everything, and whether the result is good: few kernels, few bytes saved",
}
GOALS = ("correct", "good")
MANIFEST = "conformance.json"


class Seams:
    """The implementations under test, swapped or default: `seam("partition")` or `seam.partition`; and the tier."""

    def __init__(self, swaps: dict[str, str], tier: str = "full") -> None:
        self.tier = tier
        self._targets = {**swap.tested_seams(), **swaps}
        self._swapped = set(swaps)
        self._loaded: dict[str, Callable[..., Any]] = {}

    def target(self, name: str) -> str:
        """The import path of a seam's implementation, "module:object"."""
        if name not in self._targets:
            known = ", ".join(self._targets)
            raise swap.SwapError(
                f"a test uses the seam {name!r}, which does not exist; expected one of {known}"
            )
        return self._targets[name]

    def __call__(self, name: str) -> Callable[..., Any]:
        if name not in self._loaded:
            target = self.target(name)
            mine = name in self._swapped
            who = f"--swap {name}={target}" if mine else f"the default of seam `{name}`"
            found = swap.load(target, who)
            try:
                self._loaded[name] = checked_seam(name, found) if mine else found
            except SeamError as error:
                raise swap.SwapError(f"{who}: {error}") from error
        return self._loaded[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._targets:  # hasattr must work: hypothesis, for example, calls it
            raise AttributeError(f"there is no seam {name!r}; expected one of {', '.join(self._targets)}")
        return self(name)


class SwapPlugin:
    """One run of pytest: which seams are swapped, which tests are selected, and how many of them ran."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tier: str = config.getoption("--tier")
        self.swaps: dict[str, str] = {}
        for text in config.getoption("--swap"):
            seam, target = swap.parse(text, swap.tested_seams)
            if self.swaps.setdefault(seam, target) != target:
                raise swap.SwapError(
                    f"--swap {text}: another --swap replaces the seam {seam!r} already; give each seam once"
                )
        # Made at first use, because tests without a conformance test do not need the contracts.
        self._seams: Seams | None = None
        for seam in self.swaps:
            self.seams(seam)  # so that a file that cannot be imported is reported before any test runs
        self.ran: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str, bool]] = Counter()  # seam, goal, whether the test passed
        self.verdicts: list[tuple[bool, str]] = []

    @property
    def seams(self) -> Seams:
        if self._seams is None:
            self._seams = Seams(self.swaps, self.tier)
        return self._seams

    # ---- which tests run

    def pytest_report_header(self) -> list[str]:
        return [f"swapped: {seam} = {target} (tier {self.tier})" for seam, target in self.swaps.items()]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            (kept if self._selected(item) else dropped).append(item)
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def _selected(self, item: pytest.Item) -> bool:
        marks = conformance_of(item)
        if not marks:
            return not self.swaps
        order = list(TIERS)
        asked = [mark for seam, mark in marks.items() if not self.swaps or seam in self.swaps]
        return any(order.index(mark.tier) <= order.index(self.tier) for mark in asked)

    # ---- what a failure says

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report: Any = yield
        marks = conformance_of(item)
        if marks:
            # an xdist worker sends it to the controller
            report.conformance = [(seam, mark.goal) for seam, mark in marks.items()]
            if report.failed:
                blamed = [seam for seam in marks if seam in self.swaps] or list(marks)
                name_the_seams(report, [(seam, self.seams.target(seam)) for seam in blamed])
                report.sections.append(("rule of the contract", rule_of(item)))
        return report

    # ---- did enough of them run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for seam, goal in getattr(report, "conformance", ()):
            if report.skipped:
                self.skipped[seam] += 1
            elif report.when == "call":
                self.ran[seam] += 1
                self.outcomes[seam, goal, report.passed] += 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        asked_for_all = not session.config.option.collectonly and not narrowed(session.config)
        ended_by_itself = session.exitstatus in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ) and not (session.shouldstop or session.shouldfail)
        if hasattr(session.config, "workerinput") or not (self.swaps and asked_for_all and ended_by_itself):
            return
        needed = read_manifests(session.config)
        self.verdicts = [self._verdict(seam, needed) for seam in self.swaps]
        if not all(good for good, _ in self.verdicts):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _verdict(self, seam: str, needed: dict[str, dict[str, int]]) -> tuple[bool, str]:
        where = " ".join(str(path) for path in self.config.args)
        if seam not in needed:
            return False, (
                f"seam `{seam}`: no {MANIFEST} under {where} says how many tests must run. "
                f"Run pytest on the folder of the stage that `{seam}` belongs to."
            )
        # `--slice` is of the repository's conftest.py: some cases of each test
        sliced = "" if (asked := self.config.getoption("--slice", None)) in (None, "1/1") else asked
        ran, least = self.ran[seam], 1 if sliced else needed[seam][self.tier]
        said = f"seam `{seam}` ({self.swaps[seam]}): {ran} {self.tier} conformance tests ran"
        said += f" (the slice {sliced})" if sliced else ""
        for goal in GOALS:
            passed, failed = (self.outcomes[seam, goal, outcome] for outcome in (True, False))
            said += f"; {goal}: {passed} of {passed + failed}" if passed + failed else ""
        if ran >= least > 0:
            return True, said
        skipped = f", {self.skipped[seam]} were skipped (-rs prints why)" if self.skipped[seam] else ""
        return False, (
            f"{said}{skipped}; expected at least {max(least, 1)} ({MANIFEST} under {where}). A run with fewer "
            "tests is no proof: check that the tests are collected and marked `conformance`."
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.verdicts:
            terminalreporter.section("swapped seams")
        for good, text in self.verdicts:
            terminalreporter.write_line(text if good else f"FAILED {text}", green=good, red=not good)
        if self.swaps and not self.verdicts and narrowed(self.config):
            terminalreporter.write_line(
                "swapped seams: you selected some tests, so the number of tests was not checked", yellow=True
            )


@dataclass(frozen=True)
class Mark:
    """The options of `@pytest.mark.conformance(*seams, tier=..., goal=...)` for one seam of a test."""

    tier: str = "full"
    goal: str = "correct"


def conformance_of(item: pytest.Item) -> dict[str, Mark]:
    """The mark of each seam that a test is for; empty for an ordinary test. Raises UsageError for a wrong mark."""
    found: dict[str, Mark] = {}
    for mark in item.iter_markers("conformance"):
        if problem := wrong_mark(item, mark):
            raise pytest.UsageError(f"{item.nodeid}: its mark `conformance` {problem}")
        for seam in mark.args:
            found.setdefault(seam, Mark(**mark.kwargs))
    return found


def wrong_mark(item: pytest.Item, mark: pytest.Mark) -> str:
    """What is wrong with a mark; "" if nothing is."""
    known, options = swap.tested_seams(), mark.kwargs
    wrong = [repr(seam) for seam in mark.args if seam not in known]
    if wrong or not mark.args:
        return f"names {', '.join(wrong) or 'no seam'}; expected at least one of {', '.join(known)}"
    if set(options) - {"tier", "goal"}:
        return f"has {options}; expected only a tier and a goal"
    if options.get("tier", "full") not in TIERS or options.get("goal", "correct") not in GOALS:
        return f"has {options}; expected a tier of {', '.join(TIERS)} and a goal of {', '.join(GOALS)}"
    if options.get("goal") == "good" and options.get("tier", "full") != "full":
        return (
            "has goal='good' below the tier full; a first version needs to be correct only: use tier='full'"
        )
    if "seam" not in getattr(item, "fixturenames", ()):
        return "is on a test without the `seam` fixture; the test would ignore --swap. Take `seam` as a parameter"
    return ""


def rule_of(item: pytest.Item) -> str:
    """The sentence that the test checks: its docstring, or its name as words."""
    function = getattr(item, "function", None)
    said = (getattr(function, "__doc__", None) or "").strip().partition("\n\n")[0]
    name = getattr(item, "originalname", None) or item.name
    return " ".join(said.split()) or name.removeprefix("test_").replace("_", " ").capitalize() + "."


def name_the_seams(report: Any, seams: list[tuple[str, str]]) -> None:
    """Put "seam `partition` (my_module:my_partition) failed" in the summary line and under the traceback."""
    blame = ", ".join(f"seam `{seam}` ({target})" for seam, target in seams) + " failed"
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        report.sections.append(("seam", f"{blame}: {crash.message.splitlines()[0]}"))
        crash.message = f"{blame}: {crash.message}"
    else:  # pytest.fail(pytrace=False), or a missing fixture
        report.sections.append(("seam", blame))


def narrowed(config: pytest.Config) -> bool:
    """Whether the user selected some tests. Then the number of tests is not checked."""
    options = ("keyword", "markexpr", "deselect", "lf", "stepwise")
    picked = any(getattr(config.option, name, None) for name in options)
    return picked or any("::" in arg or arg.endswith(".py") for arg in config.args)


def read_manifests(config: pytest.Config) -> dict[str, dict[str, int]]:
    """Every `conformance.json` under the folders that pytest got, in one table: {seam: {tier: count}}."""
    needed: dict[str, dict[str, int]] = {}
    for arg in config.args:
        root = Path(config.invocation_params.dir, arg)
        if config.option.pyargs and not root.exists():
            spec = importlib.util.find_spec(arg)
            root = Path(spec.origin).parent if spec and spec.origin else root
        for path in sorted(root.rglob(MANIFEST)):
            for seam, counts in json.loads(path.read_text(encoding="utf-8")).items():
                if not isinstance(counts, dict) or set(counts) != set(TIERS):
                    raise pytest.UsageError(
                        f'{path}: {seam!r} has {counts}; expected {{"first": k, "core": m, "full": n}}'
                    )
                needed[seam] = counts
    return needed


@pytest.fixture(scope="session")
def seam(pytestconfig: pytest.Config) -> Seams:
    """The implementations under test: `seam("partition")`, or `seam.partition`."""
    plugin: Any = pytestconfig.pluginmanager.get_plugin("cutaway_swap_run")
    return plugin.seams


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cutaway", "cutaway: test another implementation of a seam")
    group.addoption(
        "--swap",
        action="append",
        default=[],
        metavar="SEAM=MODULE:OBJECT",
        help=f"run this seam's conformance tests only, on this implementation ({swap.SHAPE}); repeatable",
    )
    group.addoption(
        "--tier",
        choices=list(TIERS),
        default="full",
        help="; ".join(f"{tier}: {meaning}" for tier, meaning in TIERS.items()),
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'conformance(*seams, tier="full", goal="correct"): the test holds for every implementation of these seams',
    )
    try:
        config.pluginmanager.register(SwapPlugin(config), "cutaway_swap_run")
    except swap.SwapError as error:
        raise pytest.UsageError(str(error)) from error
