"""One process of `cutaway run`: the script as `__main__`, with Cutaway as torch until the process ends.

Input: the script and its arguments, on the command line of `python -m cutaway.run_worker`.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from cutaway import torch_api


def main() -> None:
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)  # as `python script.py` has it
    torch_api.be_torch()
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
