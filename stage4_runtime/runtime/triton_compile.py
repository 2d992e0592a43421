"""The one module that imports Triton: child processes that compile one kernel each ahead of time, without a GPU.

Input: `python triton_compile.py FOLDER SOURCE`, with request.json in the folder. Writes <kernel>.cubin, .ptx
and .json beside it. `serve N ARCH`: a process that forks such a child for each request that comes on socket N
(triton_server.py). Runs as a script, so it imports no part of Cutaway.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

# Launch code only passes pointers that are multiples of this (cuda.KERNEL_ALIGNMENT), so loads may be wide.
POINTER_ALIGNMENT = 16

# ptxas 12.8, Triton 3.6's for all but the newest GPUs, makes y + |y| of |y| + |y| where two halves share a register and
# the other one is a constant 0: its machine code says so, at each level of optimisation. 12.9 keeps both.
SOUND_ASSEMBLER = (12, 9)


def compile_kernel(function: Any, request: dict[str, Any]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """(files by suffix, facts a launcher needs) of a `@triton.jit` function, specialised as requested."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    choose_assembler()
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


@functools.cache
def choose_assembler() -> None:
    """Have Triton assemble by its second ptxas where its first is too old; not where TRITON_PTXAS_PATH names one."""
    from triton import knobs

    if "TRITON_PTXAS_PATH" in os.environ:
        return
    with contextlib.suppress(Exception):  # a later Triton may keep its tools otherwise: then as it chooses
        first, second = knobs.nvidia.ptxas, knobs.nvidia.ptxas_blackwell
        if _version(first) < SOUND_ASSEMBLER <= _version(second):
            knobs.nvidia.ptxas = second.path


def _version(tool: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in tool.version.split("."))


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


def safely(folder: Path, source: str) -> str:
    """`main`; what went wrong, or nothing."""
    try:
        main(folder, source)
        return ""
    except Exception as error:  # Triton's messages show the kernel's line themselves
        return f"{type(error).__name__}: {error}"


# ---- a process that forks one for each kernel ----------------------------------------------------------------


def know_triton(arch: int) -> None:
    """Do once what each child would do again: import Triton, hash its files, ask ptxas for its version.

    Nothing here starts a thread, so that the process may fork.
    """
    import triton.compiler.code_generator  # noqa: F401, the one that compile() imports late
    from triton._C.libtriton import llvm
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compiler, make_backend
    from triton.runtime import cache

    choose_assembler()
    with contextlib.suppress(Exception):  # a later Triton may call these otherwise: then each child does it
        (cache if hasattr(cache, "triton_key") else compiler).triton_key()
        make_backend(GPUTarget("cuda", arch, 32)).hash()
        llvm.init_targets()


def serve(channel: socket.socket, arch: int) -> None:
    """Fork a child for each request, until nobody holds the other end. A request is a JSON message with a pipe, to
    which go the child's number, what it says, and how it ended."""
    know_triton(arch)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only wakes
    running: dict[int, int] = {}  # child: where to say that it ended
    while True:
        ready = select.select([channel.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            _tell_ends(running)
        if channel.fileno() in ready:
            message, pipes, _, _ = socket.recv_fds(channel, 1 << 20, 1)
            if not message:
                return
            if child := os.fork():
                running[child] = pipes[0]
            else:
                _compile(json.loads(message), pipes[0])


def _tell_ends(running: dict[int, int]) -> None:
    for child in list(running):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            pipe = running.pop(child)
            with contextlib.suppress(OSError):  # nobody reads it any more
                os.write(pipe, f"\nended {os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(pipe)


def _compile(request: dict[str, Any], pipe: int) -> None:
    """In the fork: compile, and end."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()  # it ends together with what it starts
        os.write(pipe, f"{os.getpid()}\n".encode())
        os.dup2(pipe, 1)
        os.dup2(pipe, 2)
        os.environ.clear()
        os.environ.update(request["environment"])
        if refused := safely(Path(request["folder"]), request["source"]):
            os.write(2, refused.encode())
        status = 1 if refused else 0
    finally:
        os._exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=int(sys.argv[2])), int(sys.argv[3]))
    else:
        sys.exit(safely(Path(sys.argv[1]), sys.argv[2]) or None)
