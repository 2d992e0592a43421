"""The whole oracle, run and written down: `make oracle`, or `python -m tests.oracle.report [row ...]`.

Input: the rows of samples/, the columns of columns.py. Output: report.md, which the site shows, and report.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from datetime import date
from importlib import metadata
from pathlib import Path

from stage0_eager.table.registry import TABLE
from tests.oracle import samples  # noqa: F401  (fills ROWS)
from tests.oracle.cases import SEED
from tests.oracle.columns import COLUMNS, Outcome, check
from tests.oracle.spec import INTERNAL, ROWS, Row

HERE = Path(__file__).parent
LEAST = 300  # operators, in-place forms not counted


def operators() -> list[str]:
    """The rows that count: public functions, without in-place forms."""
    return [name for name, row in ROWS.items() if not row.in_place_of]


def undeclared() -> list[str]:
    """Public rows of the operator table that nobody declared, nor said what reaches them."""
    public = [name.removeprefix("cutaway.") for name in TABLE if name.startswith("cutaway.")]
    return [name for name in public if name not in ROWS and name not in INTERNAL]


def cell(outcome: Outcome, reason: str | None) -> str:
    """passed / failed / why not, in few characters."""
    if outcome.failures:
        return f"**{len(outcome.failures)} of {outcome.passed + len(outcome.failures)} FAIL**"
    if reason is not None:
        return "exception"
    return str(outcome.passed) if outcome.passed else "–"


def walk(rows: list[Row], full: bool = True) -> dict[str, dict[str, Outcome]]:
    found: dict[str, dict[str, Outcome]] = {}
    for number, row in enumerate(rows):
        found[row.name] = {column.name: check(column, row, full) for column in COLUMNS if column.installed}
        if number % 20 == 0:
            print(f"{number} of {len(rows)}: {row.name}", file=sys.stderr)
    return found


def versions() -> str:
    names = ("numpy", "scipy", "ml_dtypes", "torch")
    have = {d.metadata["Name"].lower(): d.version for d in metadata.distributions()}
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {have[n]}" for n in names if n in have)])


def markdown(found: dict[str, dict[str, Outcome]], took: str) -> str:
    columns = [column.name for column in COLUMNS if column.installed]
    failures = sum(len(o.failures) for row in found.values() for o in row.values())
    passed = sum(o.passed for row in found.values() for o in row.values())
    aliases = sum(1 for name in operators() if ROWS[name].alias_of)
    lines = [
        "# The oracle's table",
        "",
        f"{len(operators())} operators ({aliases} of them second names), {len(ROWS) - len(operators())} in-place forms; "
        f"{passed} cases passed, {failures} failed. {date.today()}, seed {SEED}, {versions()}; {took}. "
        "Made by `make oracle`.",
        "",
        "A number is how many cases passed: samples × dtypes × layouts × edge values. `–`: the column has nothing to "
        "say on the operator (no floating operand, nothing to differentiate). `exception`: see the reasons below the "
        "table.",
        "",
        *[
            f"- **{column.name}**: {(column.check.__doc__ or '').strip().splitlines()[0]}"
            for column in COLUMNS
        ],
        "",
        f"| operator | {' | '.join(columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for name, outcomes in found.items():
        cells = [cell(outcomes[c], ROWS[name].exceptions.get(c)) for c in columns]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += ["", "## Exceptions", "", "| operator | column | reason |", "|---|---|---|"]
    lines += [f"| {names} | {column} | {reason} |" for (column, reason), names in exceptions(found).items()]
    lines += [
        "",
        "## Rows that have no public name",
        "",
        "Each is reached by the samples of a public function.",
        "",
    ]
    lines += [f"- `{name}`: by `{public}`" for name, public in sorted(INTERNAL.items())]
    if failures:
        lines += ["", "## Failures", ""]
        lines += [
            f"- `{n}`, {c}: {text}"
            for n, row in found.items()
            for c, o in row.items()
            for text in o.failures[:3]
        ]
    return "\n".join(lines) + "\n"


def exceptions(found: dict[str, dict[str, Outcome]]) -> dict[tuple[str, str], str]:
    """(column, reason) -> the rows it holds for."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, outcomes in found.items():
        row = ROWS[name]
        reasons = [
            *row.exceptions.items(),
            *((c, f"edge values: {r}") for c, r in row.edge_exceptions.items()),
        ]
        reasons += [("torch", f"aliasing: {row.aliasing}")] if row.aliasing else []
        reasons += [("layouts", f"walked in {', '.join(row.layouts)}")] if row.layouts else []
        reasons += [
            (c, f"some samples: {r}") for c, o in outcomes.items() for r in o.notes if c not in row.exceptions
        ]
        reasons += [
            ("refusals", f"{i.error.__name__}, torch raises {i.torch_error.__name__}")
            for i in row.invalid
            if i.torch_error
        ]
        for key in dict.fromkeys(reasons):
            rows.setdefault(key, []).append(f"`{name}`")
    return {key: ", ".join(names) for key, names in rows.items()}


def as_data(found: dict[str, dict[str, Outcome]]) -> dict:
    return {
        name: {column: vars(outcome) for column, outcome in outcomes.items()}
        for name, outcomes in found.items()
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to check (all); with rows, nothing is written")
    parser.add_argument(
        "--update", action="store_true", help="write these rows into the report of the others"
    )
    chosen, update = parser.parse_args(arguments).rows, parser.parse_args(arguments).update
    warnings.simplefilter("ignore")
    missing = undeclared()
    if missing:
        print(f"no declaration in tests/oracle/samples: {', '.join(missing)}", file=sys.stderr)
    start = time.monotonic()
    found = walk([ROWS[name] for name in chosen] if chosen else list(ROWS.values()))
    took = (
        f"{len(found)} rows run in {time.monotonic() - start:.0f} s{', the others before' if update else ''}"
    )
    if update:
        kept = json.loads((HERE / "report.json").read_text(encoding="utf-8"))
        before = {name: {c: Outcome(**o) for c, o in row.items()} for name, row in kept.items()}
        found = {name: found.get(name) or before[name] for name in ROWS if name in found or name in before}
    report = markdown(found, took)
    if update or not chosen:
        (HERE / "report.md").write_text(report, encoding="utf-8")
        rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in as_data(found).items()]
        (HERE / "report.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    else:
        print(report)
    failed = [(n, c, o.failures[0]) for n, row in found.items() for c, o in row.items() if o.failures]
    for name, column, text in failed:
        print(f"{name}, {column}: {text}", file=sys.stderr)
    print(f"{len(operators())} operators; {len(failed)} cells of the table fail", file=sys.stderr)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
