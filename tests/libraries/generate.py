"""Greedy generation with a static cache, eager and compiled, in a process of its own.

Input: on the command line, "torch" or "cutaway", a model of zoo.py, a weights file (written by the process on torch) and
the file for the tokens and the number of compiles.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.libraries.one_run import framework
from tests.libraries.zoo import MODELS, VOCABULARY

TOKENS = 32


def texts(name: str, which: str, weights: Path) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    model = MODELS[which].make().double().eval()
    if name == "torch":
        torch.save(model.state_dict(), weights)
    model.load_state_dict(torch.load(weights))
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    begin = torch.tensor([[3, 1, 4, 1, 5]]) % VOCABULARY

    def tokens() -> list[int]:
        options = {"max_new_tokens": TOKENS, "do_sample": False, "cache_implementation": "static"}
        return model.generate(begin, **options).tolist()

    eager = tokens()
    if name == "torch":
        return {"tokens": eager}
    model.forward = torch.compile(model.forward, fullgraph=True)
    compiled = tokens()
    return {"eager": eager, "tokens": compiled, "compiles": len(model.forward.entries)}


def main() -> None:
    name, which, weights, out = sys.argv[1:]
    with framework(name):
        found = texts(name, which, Path(weights))
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
