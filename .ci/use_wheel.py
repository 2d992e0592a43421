"""What the wheel must do without the repository: import, compile, find its data, and answer on the command line.

Input: the folder that the wheel was installed into, which is also on the path. It runs from `make wheel`.
"""

import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import cutaway

SITE = Path(sys.argv[1]).resolve()
HOME = Path(cutaway.__file__).resolve().parent
DATA = (
    "labs/lab04_partition/lab.toml",
    "labs/lab04_partition/page.md",
    "tour/data/digits.txt",
    "names.pyi",
    "py.typed",
)


@cutaway.compile(fullgraph=True)
def f(x):
    return cutaway.sin(cutaway.cos(x))


def main() -> None:
    assert HOME == SITE / "cutaway", f"cutaway was imported from {HOME}, not from the wheel"
    assert not (SITE / "labs").exists(), "labs belongs inside cutaway"
    missing = [name for name in DATA if not (HOME / name).is_file()]
    assert not missing, f"the wheel lacks {missing}"
    x = cutaway.linspace(0, 1, 100).requires_grad_()
    f(x).sum().backward()
    assert cutaway.allclose(x.grad, -cutaway.sin(x) * cutaway.cos(cutaway.cos(x)))
    for command in ("--version", "doctor"):
        subprocess.run([sys.executable, "-m", "cutaway.cli", command], check=True)
    with tempfile.TemporaryDirectory() as mine:
        lab = [sys.executable, "-m", "cutaway.cli", "lab"]
        subprocess.run([*lab, "start", "4", "--folder", mine], check=True)
        answer = subprocess.run([*lab, "solution", "4"], check=True, capture_output=True).stdout
        (Path(mine) / "lab04_partition/partition.py").write_bytes(answer)
        subprocess.run([*lab, "check", "4", "--folder", mine], check=True)
    print(f"cutaway {metadata.version('cutaway')} works from its wheel")


main()
