"""The page Benchmarks: what every report says of itself, and its text, grouped by what was asked.

Input: reports/*.txt, as `make NAME` wrote them, and the questions of the README's table Evidence.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
GROUPS = {
    "How fast": "cpu-speed training-step gpu-speed eager-speed convolution call-overhead capture-time profiler-cost "
    "partition-times against-tree",
    "How much memory": "saved-bytes",
    "Is it right": "oracle programs pairs names numpy models language-model libraries fuzz-autograd fuzz-attributes "
    "fuzz-rewrites fuzz-capture-3.11 fuzz-capture-3.12 fuzz-capture-3.13 random-bits vector-math distributed",
    "The tools": "planted-faults minified-faults site-check explorer-check zensical lab-walk",
    "On a GPU": "gpu-eager gpu-skeleton gpu-profiler gpu-user_kernels gpu-guides gpu-safety gpu-compiled "
    "gpu-graphs gpu-streams gpu-copies gpu-autotune "
    "gpu-losses gpu-distributed",
}
ABOVE = """\
# Benchmarks and reports

Each block is a file of `reports/`, as the command in its second line wrote it, on the day in that line. Timings are
ratios of one run on one machine: compare the two columns of a row, not numbers of two reports. A goal that is missed
stands in the report. To make one again, run its command: the file is replaced.
"""


def questions():
    """Report -> what it answers, from the README's table."""
    rows = re.findall(
        r"^\| (.+?) \| .*? \| (.+?) \|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M
    )
    return {name: asked for asked, cell in rows for name in re.findall(r"reports/([\w.-]+)\.txt", cell)}


def reports_page():
    there = {path.stem: path for path in sorted((ROOT / "reports").glob("*.txt"))}
    grouped = {title: names.split() for title, names in GROUPS.items()}
    known = {name for names in grouped.values() for name in names}
    grouped["More"] = [name for name in there if name not in known]
    asked = questions()
    parts = [ABOVE]
    for title, names in grouped.items():
        found = [name for name in names if name in there]
        parts += [f"## {title}"] if found else []
        for name in found:
            text = there[name].read_text(encoding="utf-8").rstrip()
            question = asked.get(name, "").strip()
            parts.append(f"### {name}\n\n{question[:1].upper()}{question[1:]}\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"
