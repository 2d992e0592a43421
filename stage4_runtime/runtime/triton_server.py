"""A process that has imported Triton forks one for each kernel: a child of its own would import Triton again.

Input: a folder with a kernel's source and request.json (triton_units.py). The import takes five times as long as a
kernel. The server begins as soon as a program for a GPU has to be lowered, and ends with the process that began it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("triton_compile.py")


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit status, None if it took too long; and what it said."""

    status: int | None
    said: str


@dataclass(frozen=True)
class Server:
    owner: int  # the process that began it; a fork of that begins its own
    channel: socket.socket
    process: subprocess.Popen


_SERVERS: dict[int, Server] = {}  # by architecture
_LOCK = threading.Lock()


def begin(arch: int, environment: Mapping[str, str]) -> Server | None:
    """The server for an architecture; at once, for it imports in the meantime. None where a process cannot fork one."""
    if sys.platform != "linux":
        return None
    with _LOCK:
        known = _SERVERS.get(arch)
        if known and known.owner == os.getpid() and known.process.poll() is None:
            return known
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), "serve", str(theirs.fileno()), str(arch)],
                env=dict(environment),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt in the terminal is this process's to answer
            )
        except OSError:
            ours.close()
            return None
        finally:
            theirs.close()
        _SERVERS[arch] = server = Server(os.getpid(), ours, process)
        return server


def compiled(
    arch: int, folder: Path, source: str, environment: Mapping[str, str], limit: float
) -> Ended | None:
    """Compile what is in the folder in a fork of the server. None where no server answers."""
    server = begin(arch, environment)
    if server is None:
        return None
    request = {"folder": str(folder), "source": source, "environment": dict(environment)}
    answers, pipe = os.pipe()
    try:
        socket.send_fds(server.channel, [json.dumps(request).encode()], [pipe])
    except OSError:
        os.close(answers)
        return None
    finally:
        os.close(pipe)
    with os.fdopen(answers, "rb", buffering=0) as stream:
        return _answer(stream.fileno(), time.monotonic() + limit)


def _answer(stream: int, deadline: float) -> Ended | None:
    """Read until the child and the server have both closed the pipe; stop the child at the deadline."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    heard = b""
    try:
        while poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            if not (more := os.read(stream, 1 << 16)):
                break
            heard += more
        else:
            _stop(heard)
            return Ended(None, "")
    except BaseException:  # an interrupt: leave nothing running
        _stop(heard)
        raise
    _, _, rest = heard.decode(errors="replace").partition("\n")
    said, told, status = rest.rpartition("\nended ")
    return Ended(int(status), said) if told else None


def _stop(heard: bytes) -> None:
    """End the child that said its number first, and what it started."""
    number = heard.partition(b"\n")[0]
    if number.isdigit():
        with contextlib.suppress(OSError):
            os.killpg(int(number), signal.SIGKILL)
