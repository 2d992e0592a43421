"""The one module that imports Triton: a child process that compiles one kernel ahead of time, without a GPU.

Input: `python triton_compile.py FOLDER SOURCE`, with request.json in the folder. Writes <kernel>.cubin, .ptx
and .json beside it. Runs as a script, so it imports no part of Cutaway.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

# Launch code only passes pointers that are multiples of this (cuda.KERNEL_ALIGNMENT), so loads may be wide.
POINTER_ALIGNMENT = 16


def compile_kernel(function: Any, request: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """(files by suffix, facts a launcher needs) of a `@triton.jit` function, specialised as requested."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = {k: v for k, v in request["constants"].items() if k in function.arg_names}
    run_time = [name for name in function.arg_names if name not in constants]
    signature = _by_name(request["signature"], run_time)
    types = {name: "constexpr" if name in constants else signature[name] for name in function.arg_names}
    promises = {
        (position,): [["tt.divisibility", POINTER_ALIGNMENT]]
        for position, name in enumerate(function.arg_names)
        if types[name].startswith("*")
    }
    compiled = triton.compile(
        ASTSource(fn=function, signature=types, constexprs=constants, attrs=promises),
        target=GPUTarget("cuda", request["arch"], 32),
        options={"enable_fp_fusion": False, **request["options"]},
    )
    meta = compiled.metadata
    facts = {
        "name": meta.name,
        "shared": meta.shared,
        "num_warps": meta.num_warps,
        "scratch": meta.global_scratch_size,
        "types": [types[name] for name in run_time],
    }
    return {"cubin": compiled.asm["cubin"], "ptx": compiled.asm["ptx"].encode()}, facts


def _by_name(signature: dict[str, str], run_time: list[str]) -> dict[str, str]:
    """The signature keyed by the function's own parameters, matched by name or else by position."""
    if set(run_time) <= set(signature):
        return signature
    given = [t for t in signature.values() if t != "constexpr"]
    if len(given) != len(run_time):
        raise TypeError(f"the kernel takes {', '.join(run_time)}; its signature names {', '.join(signature)}")
    return dict(zip(run_time, given, strict=True))


def main(folder: Path, source: str) -> None:
    request = json.loads((folder / "request.json").read_text())
    spec = importlib.util.spec_from_file_location("generated_kernel", folder / source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # from a real file: Triton reads the kernel's source lines
    files, facts = compile_kernel(getattr(module, request["kernel"]), request)
    files["json"] = json.dumps(facts).encode()
    for kind, data in files.items():
        (folder / f"{request['kernel']}.{kind}").write_bytes(data)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except Exception as error:  # Triton's messages show the kernel's line themselves
        sys.exit(f"{type(error).__name__}: {error}")
