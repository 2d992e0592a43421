"""The whole oracle, run and written down: `make oracle`, or `python -m tests.oracle.report [row ...]`.

Input: the rows of samples/, the columns of columns.py. Output: reports/oracle.txt, the sums; build/oracle.md, the table
that the site shows; build/oracle.json, which `--update` reads again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from stage0_eager.table.registry import TABLE
from stage_contracts.tests.report_heading import heading
from tests.oracle import samples  # noqa: F401  (fills ROWS)
from tests.oracle.cases import SEED
from tests.oracle.columns import COLUMNS, Outcome, check
from tests.oracle.spec import INTERNAL, ROWS, Row

ROOT = Path(__file__).parents[2]
PEERS = ("scipy", "ml_dtypes", "torch")
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


def summary(found: dict[str, dict[str, Outcome]], took: str) -> str:
    """The sums of each column, and the first failures: what the repository keeps."""
    aliases = sum(1 for name in operators() if ROWS[name].alias_of)
    lines = [
        heading(
            "Every operator, in every dtype, layout and edge value", "make oracle", SEED, *PEERS, more=took
        ),
        f"{len(operators())} operators ({aliases} of them second names), {len(ROWS) - len(operators())} in-place forms",
        "",
        f"{'':22}{'passed':>8}{'failed':>8}{'rows':>6}{'excepted':>10}",
    ]
    for column in (column.name for column in COLUMNS if column.installed):
        of_rows = [(name, row[column]) for name, row in found.items() if column in row]
        passed, failed = sum(o.passed for _, o in of_rows), sum(len(o.failures) for _, o in of_rows)
        excepted = sum(column in ROWS[name].exceptions for name, _ in of_rows)
        lines.append(
            f"{column:22}{passed:>8}{failed:>8}{sum(bool(o.passed) for _, o in of_rows):>6}{excepted:>10}"
        )
    lines += [
        f"FAILED {name}, {column}: {text}"
        for name, row in found.items()
        for column, outcome in row.items()
        for text in outcome.failures[:1]
    ]
    return "\n".join(lines) + "\n"


def markdown(found: dict[str, dict[str, Outcome]], took: str) -> str:
    columns = [column.name for column in COLUMNS if column.installed]
    failures = any(o.failures for row in found.values() for o in row.values())
    lines = [
        "# The oracle's table",
        "",
        "```",
        summary(found, took).rstrip(),
        "```",
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
        kept = json.loads((ROOT / "build/oracle.json").read_text(encoding="utf-8"))
        before = {name: {c: Outcome(**o) for c, o in row.items()} for name, row in kept.items()}
        found = {name: found.get(name) or before[name] for name in ROWS if name in found or name in before}
    if update or not chosen:
        (ROOT / "build").mkdir(exist_ok=True)
        (ROOT / "reports/oracle.txt").write_text(summary(found, took), encoding="utf-8")
        (ROOT / "build/oracle.md").write_text(markdown(found, took), encoding="utf-8")
        rows = [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in as_data(found).items()]
        (ROOT / "build/oracle.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    else:
        print(markdown(found, took))
    failed = [(n, c, o.failures[0]) for n, row in found.items() for c, o in row.items() if o.failures]
    for name, column, text in failed:
        print(f"{name}, {column}: {text}", file=sys.stderr)
    print(f"{len(operators())} operators; {len(failed)} cells of the table fail", file=sys.stderr)
    return 1 if failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
