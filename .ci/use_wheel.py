"""What the wheel must do without the repository: import, compile, find its data, and answer on the command line.

Input: the folder that the wheel was installed into, which is also on the path. It runs from `make wheel`.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import cutaway

SITE = Path(sys.argv[1]).resolve()
HOME = Path(cutaway.__file__).resolve().parent
DATA = ("labs/__init__.py", "tour/data/digits.txt", "names.pyi", "py.typed")


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
    print(f"cutaway {metadata.version('cutaway')} works from its wheel")


main()
