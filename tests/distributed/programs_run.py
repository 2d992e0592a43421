"""How a script of programs/ is started, which faults there are, and what must be said of each.

Input: none. test_distributed.py runs some of the faults in CI; large_runs.py runs all of them.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from stage0_eager.serialization import load

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = Path(__file__).parent / "programs"

SAYS = {  # what a surviving rank, or `cutaway run`, says of each fault
    "raises": r"\[rank 1\].*the last rank has had enough",
    "exits": r"waited 2 s for the other ranks|BAD TERMINATION|EXIT CODE: 3|exit(ed)? (code|status):? 3",
    "killed": r"KILLED BY SIGNAL|EXIT CODE: 9|Killed",
    "slow": r"waited 2 s for the other ranks",
    "never calls": r"waited 2 s for the other ranks",
    "shape": r"rank 0: all_reduce\(SUM, float32\[2\]\).*\n.*rank 1: all_reduce\(SUM, float32\[3\]\)",
    "dtype": r"rank 0: all_reduce\(SUM, float32\[2\]\).*\n.*rank 1: all_reduce\(SUM, float64\[2\]\)",
    "another collective": r"rank 0: all_reduce.*\n.*rank 1: broadcast",
    "another reduction": r"rank 0: all_reduce\(SUM.*\n.*rank 1: all_reduce\(MAX",
    "another graph": r"rank 0: all_reduce\(SUM.*faults.py:\d+\n.*rank 1: all_reduce\(MAX.*faults.py:\d+",
    "model": r"rank 0: DistributedDataParallel of weight .*\[2, 4\].*\n.*rank 1: .*\[3, 4\]",
}
MISMATCHES = (
    "shape",
    "dtype",
    "another collective",
    "another reduction",
    "another graph",
    "model",
)  # all ranks see them
TIMED = (
    "exits",
    "slow",
    "never calls",
)  # seen only by waiting, for 2 s; the others must be seen before 60 s have passed
NCCL_SAYS = {  # and what rank 0 says with NCCL
    "raises": "rank 1 has ended with ValueError: the last rank has had enough",
    "killed": "the process of rank 1 has ended without a word",
    "never calls": SAYS["never calls"],
    "another collective": SAYS["another collective"],
}
# graph_faults.py draws the place of each from its seed, whose remainder is the fault
GRAPH_FAULTS = ("killed", "raises", "exits", "slow", "shape", "dtype", "another collective", "killed in save")
IN_GRAPHS = SAYS | {
    "killed in save": SAYS["killed"],
    "exits": r"one of the 2 processes ended with status 3|waited 2 s for the other ranks",
    "shape": r"rank 0: (\w+)\(.*\n.*rank 1: \1\(.*",
    "dtype": r"rank 0: (\w+)\(.*float32.*\n.*rank 1: \1\(.*float64",
    "another collective": r"rank 0: .*\n.*rank 1: all_reduce\(MAX",
    "slow": r"waited 2 s for the other ranks",
}
PLACES = ("at once", "after some", "in backward", "in a graph")
ONLY = {"model": ("in backward",), "another graph": ("in a graph",)}
NOT = {("dtype", "in a graph"), ("another collective", "in a graph"), ("another reduction", "in a graph")}
FAULTS = [(f, p) for f in SAYS for p in ONLY.get(f, PLACES) if (f, p) not in NOT]


def graph_fault(seed, folder):
    """("" or what is wrong with how the run ended, the fault, seconds from the fault to the end of all ranks)."""
    fault = GRAPH_FAULTS[seed % len(GRAPH_FAULTS)]
    try:
        done = start("graph_faults.py", str(seed), folder)
    except subprocess.TimeoutExpired:
        return "hangs", fault, 100.0
    ended, when = time.time(), folder / "when"
    if not when.exists():
        return f"no fault: {done.stdout[-200:]}{done.stderr[-1000:]}", fault, 0.0
    taken = ended - float(when.read_text())
    told = re.search(IN_GRAPHS[fault], done.stdout + done.stderr, re.S)
    wrong = [] if told else [f"does not say it: {(done.stdout + done.stderr)[-700:]}"]
    wrong += ["status 0"] if done.returncode == 0 else []
    wrong += [torn] if (torn := torn_checkpoint(folder / "saved")) else []
    return "; ".join(wrong), fault, taken


def torn_checkpoint(folder):
    """ "" where a checkpoint is whole or absent."""
    index = folder / "checkpoint.json"
    if not index.exists():
        return ""
    for part in json.loads(index.read_text())["parts"]:
        try:
            load(folder / part)
        except Exception as error:
            return f"a torn checkpoint: {part}: {error}"
    return ""


# What each rank prints at the end of each script that checks results.
SAID = {
    "collectives.py": r"\d{3,} results equal",
    "random_programs.py": r"\d+ programs equal",
    "graph_programs.py": r"\d+ graphs equal",
    "data_parallel.py": "data-parallel training equal to one process",
    "hooks_and_casts.py": "hooks and casts equal to one process",
    "models.py": "models equal to one process",
    "sharded.py": "sharded training equal to one process|loaded",
    "mixed_precision.py": "mixed precision as by hand",
    "together.py": "together",
}


def start_several(scripts, processes, limit=600, start=None):
    """Scripts with their words, in one start of so many processes. Returns what ended badly, "" where nothing did."""
    words = [word for script in scripts for word in ("--", *map(str, script))][1:]
    ended = (start or start_one)("several.py", *words, processes=processes, limit=limit)
    return missing(scripts, ended, processes)


def missing(scripts, ended, processes):
    """What (status, output) lacks of what each rank must have said of each script."""
    status, said = ended
    told = {script: len(re.findall(rf"rank \d: [^\n]*?({SAID[script]})", said)) for script, *_ in scripts}
    wanted = {name: processes * sum(script == name for script, *_ in scripts) for name in told}
    lacking = [f"{name}: {told[name]} of {n} ranks" for name, n in wanted.items() if told[name] != n]
    return f"status {status}; {', '.join(lacking)}\n{said[-6000:]}" if status or lacking else ""


def start_one(script, *words, processes, limit):
    done = start(script, *words, processes=processes, limit=limit)
    return done.returncode, done.stdout + done.stderr


def start(script, *words, processes=2, limit=100):
    command = [sys.executable, "-m", "cutaway.cli", "run", "--nproc", str(processes), "--timeout", str(limit)]
    return subprocess.run(
        [*command, PROGRAMS / script, *words], cwd=ROOT, capture_output=True, text=True, errors="replace"
    )


def free_port():
    with socket.create_server(("localhost", 0)) as found:
        return found.getsockname()[1]


def start_apart(script, *words, processes=2, limit=100, first_ends=False):
    """Processes with torchrun's variables and no mpiexec. Returns (status, output) of each.

    `first_ends`: when rank 0 has ended, a launcher ends the others.
    """
    started = []
    port, *ports = (str(free_port()) for _ in range(9))
    for rank in range(processes):
        told = {"RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": "localhost", "MASTER_PORT": port, "PORTS": " ".join(ports), "PYTHONPATH": str(ROOT)}  # fmt: skip
        command = [sys.executable, "-m", "cutaway.run_worker", PROGRAMS / script, *words]
        started.append(
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=os.environ | told,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        )
    try:
        ended = []
        for process in started:
            ended.append((process.communicate(timeout=limit)[0], process.returncode))
            [p.kill() for p in started if first_ends]
    finally:
        for process in started:
            process.kill()
    return [(status, output) for output, status in ended]
