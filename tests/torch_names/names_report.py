"""Which of torch's documented names are here, and which give what torch gives: `make names` keeps the sums in reports/.

Input: torch, call_forms.py and names_apart.py; `--quick` takes torch.special alone, `--names torch.add ...` some names.
The samples decide the word of each name (name_samples.py). A whole run writes a line for each to site_docs/torch_names.txt.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch

from cutaway.torch_api import modules
from stage_contracts.tests.report_heading import heading
from tests.torch_names.name_samples import LAYOUT, PATHS, RANDOM, Verdict, documented, verdict
from tests.torch_names.names_apart import apart, reason

TABLE = Path(__file__).parents[2] / "site_docs" / "torch_names.txt"
# Their samples would start threads, or end the run.
NOT_RUN = {"torch.fork", "torch.wait", "torch.import_ir_module", "torch.import_ir_module_from_buffer"}


def judged(path: str, name: str) -> Verdict:
    group = apart(f"{path}.{name}")
    if group or f"{path}.{name}" in NOT_RUN:
        return Verdict(f"{path}.{name}", "apart", group)
    found = verdict(torch, modules()["torch"], path, name)
    return Verdict(found.name, found.word, reason(found.name)) if found.word == "not here" else found


def totals(verdicts: list[Verdict]) -> list[str]:
    """A line for each path, and the fractions of all together."""
    lines = []
    for path in PATHS:
        words = Counter(v.word for v in verdicts if v.name.rpartition(".")[0] == path)
        lines.append(f"{path}: " + ", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    counted = [v for v in verdicts if v.word != "apart"]
    same = sum(v.word == "same" for v in counted)
    layout, bits = sum(v.word == LAYOUT for v in counted), sum(RANDOM in v.note for v in counted)
    lines += [
        f"same: {same} of {len(counted)}, {100 * same / len(counted):.1f} % (of these, {bits} draw other random bits)",
        f"with those that differ in strides alone: {same + layout}, {100 * (same + layout) / len(counted):.1f} %",
    ]
    return lines


def main(args: list[str]) -> int:
    wanted = args[args.index("--names") + 1 :] if "--names" in args else []
    paths = ("torch.special",) if "--quick" in args else PATHS
    chosen = [name.rpartition(".")[::2] for name in wanted]
    chosen = chosen or [(path, name) for path in paths for name in documented(torch, path)]
    verdicts = [judged(path, name) for path, name in chosen]
    print(heading("torch's documented names under as_torch()", "make names", "0", "torch"), end="\n\n")
    print("\n".join(totals(verdicts)))
    if wanted or "--quick" in args:
        print("", *(v.line() for v in verdicts), sep="\n")
    else:
        TABLE.write_text("".join(f"{v.line()}\n" for v in verdicts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
