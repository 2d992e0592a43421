"""Several of these scripts in one process, one after another: a process's start costs more than most of them.

Usage: several.py SCRIPT [ARGUMENT...] [-- SCRIPT [ARGUMENT...]]... Each has a process group of its own. Where torchrun's
variables name the ranks, PORTS has the port of each script's store.
"""

import itertools
import os
import runpy
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

FOLDER = Path(__file__).parent


def main():
    ports = iter(os.environ.get("PORTS", "").split())
    runs = [[*words] for last, words in itertools.groupby(sys.argv[1:], "--".__eq__) if not last]
    for script, *words in runs:
        if "MASTER_PORT" in os.environ:
            os.environ["MASTER_PORT"] = next(ports)
        torch._dynamo.reset()
        sys.argv = [script, *words]
        runpy.run_path(str(FOLDER / script), run_name="__main__")
        if dist.is_initialized():
            dist.destroy_process_group()
        print(f"{script} has ended, after {time.process_time():.1f} s of the processor", flush=True)


main()
