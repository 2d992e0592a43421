"""Random tensor programs in a process that finds them in the cache: `python -m tests.tensor_programs.warm FOLDER 0 200`.

Input: a cache folder, the first seed and how many. Each program is compiled as in `compare.check`, which compares all
that a user can see of calls and backwards with eager. Prints, as JSON, how often stage 2's result came from the cache,
how often stage 2 ran, and what differed. Run it twice: the second process finds what the first one kept.
"""

import json
import sys
from unittest import mock

from cutaway import aot_cache
from stage_contracts import config, events
from tests.tensor_programs.compare import check
from tests.tensor_programs.grammar import write_program

QUICK = {"runtime.cxx_flags": "-O0 -march=native -fopenmp -ffp-contract=off"}


def main(folder: str, first: int, count: int) -> dict:
    mark, differs = events.EVENT_LOG.mark(), []
    with config.patch(cache_dir=folder), mock.patch.object(aot_cache, "FEWEST", 0):
        for seed in range(first, first + count):
            try:
                check(write_program(seed), ("inductor", QUICK))
            except Exception as error:
                differs.append(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}")
    since = events.EVENT_LOG.since(mark)
    kept = [e.name for e in since if e.kind == "cache" and e.details["unit"].startswith("stage 2 of")]
    ran = sum(e.kind == "pass" and e.name == "functionalize" for e in since)
    return {"hits": kept.count("hit"), "misses": kept.count("miss"), "ran": ran, "differs": differs}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
