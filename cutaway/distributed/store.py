"""Stores: a few words that processes leave for one another before, and beside, what NCCL moves.

Input: an address (`MASTER_ADDR`, `MASTER_PORT`) whose first process serves the others, or a folder that all of them
see. By torch.distributed's names. Values are bytes; whoever stores an object says how to read it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from cutaway.distributed.agreement import DistBackendError

WAIT = 300.0  # seconds for a key, torch's
NAP = 0.005
LENGTHS = struct.Struct("<BII")  # the command, and the bytes of its key and value
SET, GET, ADD, DELETE, HELLO, BYE = range(6)
FAILED = "failed"  # the key of the first process's story that went wrong


class Store(Protocol):
    """What both stores do. `timeout` in seconds; None: the store's own."""

    def set(self, key: str, value: bytes | str) -> None: ...
    def get(self, key: str, timeout: float | None = None) -> bytes:
        """The value, as soon as it is there. DistBackendError after `timeout`."""
        ...

    def look(self, key: str) -> bytes | None:
        """The value, or None where there is none yet."""
        ...

    def add(self, key: str, amount: int) -> int:
        """The sum of all amounts so far."""
        ...

    def delete_key(self, key: str) -> bool: ...
    def leave(self) -> None:
        """This process has ended well."""
        ...


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _seconds(timeout: Any) -> float:
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def _late(store: Store, key: str, seconds: float) -> DistBackendError:
    """Why a wait has ended: another process has told of its end, or nobody came in time."""
    story = store.look(FAILED)
    if story is not None:
        return DistBackendError(story.decode())
    return DistBackendError(
        f"no process has set {key!r} within {seconds:g} s; look at the output of the other ranks, or give "
        "init_process_group a longer timeout"
    )


class TCPStore:
    """A store behind a port of the first process. The others wait until it listens.

    A process that ends without `leave()` leaves its story under FAILED, so that the others need not wait for it.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = WAIT,
        rank: int = 0,
    ) -> None:
        self.host, self.timeout, self.rank = host_name, _seconds(timeout), rank
        self._server = _Server(host_name, port, world_size or 1) if is_master else None
        self.port = self._server.port if self._server else port
        self._ours = threading.local()  # a connection for each thread: one may wait while another asks
        self._ask(HELLO, str(rank))

    def _connection(self) -> socket.socket:
        found = getattr(self._ours, "connection", None)
        if found is not None:
            return found
        limit = time.monotonic() + self.timeout
        while True:
            try:
                found = socket.create_connection((self.host, self.port), timeout=self.timeout)
                break
            except OSError as error:
                if time.monotonic() > limit:
                    raise DistBackendError(
                        f"rank {self.rank} found no process that listens at {self.host}:{self.port} within "
                        f"{self.timeout:g} s ({error}); rank 0 must run there, with the same MASTER_ADDR and "
                        "MASTER_PORT"
                    ) from error
                time.sleep(0.05)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ours.connection = found
        return found

    def _ask(self, command: int, key: str, value: bytes = b"", timeout: float = 0.0) -> bytes | None:
        connection = self._connection()
        connection.settimeout(timeout + self.timeout)
        name = key.encode()
        try:
            connection.sendall(LENGTHS.pack(command, len(name), len(value)) + name + value)
            there, length, _ = LENGTHS.unpack(_read(connection, LENGTHS.size))
            answer = _read(connection, length)
        except OSError as error:
            raise DistBackendError(
                f"rank {self.rank} lost the process that keeps the store at {self.host}:{self.port} ({error}): "
                "rank 0 has ended. Look at its output"
            ) from error
        return answer if there else None

    def set(self, key: str, value: bytes | str) -> None:
        self._ask(SET, key, _bytes(value))

    def get(self, key: str, timeout: float | None = None) -> bytes:
        seconds = self.timeout if timeout is None else _seconds(timeout)
        found = self._ask(GET, key, struct.pack("<d", seconds), seconds)
        if found is None:
            raise _late(self, key, seconds)
        return found

    def look(self, key: str) -> bytes | None:
        return self._ask(GET, key, struct.pack("<d", 0.0))

    def add(self, key: str, amount: int) -> int:
        return int(self._ask(ADD, key, str(amount).encode()) or b"0")

    def delete_key(self, key: str) -> bool:
        return self._ask(DELETE, key) is not None

    def leave(self) -> None:
        """Tell the server; the first process stays until all have left, or for a few seconds."""
        with contextlib.suppress(DistBackendError):
            self._ask(BYE, str(self.rank))
        if self._server is not None:
            self._server.close()


class _Server:
    """The keys, and a thread for each connection."""

    def __init__(self, host: str, port: int, size: int) -> None:
        self.keys: dict[str, bytes] = {}
        self.changed = threading.Condition()
        self.here: set[str] = set()
        self.left = 0
        self.size = size
        self.socket = socket.create_server((host, port))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, name="cutaway store", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self.socket.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rank = ""
        with contextlib.suppress(OSError):
            while True:
                command, name, size = LENGTHS.unpack(_read(connection, LENGTHS.size))
                key, value = _read(connection, name).decode(), _read(connection, size)
                if command == HELLO:
                    rank = key
                    self.here.add(rank)
                answer = self._answer(command, key, value)
                reply = answer or b""
                connection.sendall(LENGTHS.pack(answer is not None, len(reply), 0) + reply)
        if rank in self.here:
            self._answer(SET, FAILED, f"the process of rank {rank} has ended without a word".encode(), False)

    def _answer(self, command: int, key: str, value: bytes, again: bool = True) -> bytes | None:
        with self.changed:
            if command == GET:
                self.changed.wait_for(
                    lambda: key in self.keys or FAILED in self.keys, struct.unpack("<d", value)[0]
                )
                return self.keys.get(key)
            if command == ADD:
                value = str(int(self.keys.get(key, b"0")) + int(value)).encode()
            if command == DELETE:
                return self.keys.pop(key, None)
            if command in (SET, ADD) and (again or key not in self.keys):
                self.keys[key] = value
            if command == BYE:
                self.here.discard(key)
                self.left += 1
            self.changed.notify_all()
            return value

    def close(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.left >= self.size, 5.0)
        self.socket.close()


def _read(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class FileStore:
    """A store in a folder that all processes see. It must not exist before the first of them starts.

    The last to leave removes it.
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1, timeout: Any = WAIT) -> None:
        self.path, self.size, self.timeout = Path(file_name), world_size, _seconds(timeout)
        self.path.mkdir(parents=True, exist_ok=True)

    def _at(self, key: str) -> Path:
        return self.path / key.encode().hex()

    def set(self, key: str, value: bytes | str) -> None:
        whole = self.path / f"{os.getpid()}-{threading.get_ident()}.tmp"
        whole.write_bytes(_bytes(value))
        whole.replace(self._at(key))

    def look(self, key: str) -> bytes | None:
        try:
            return self._at(key).read_bytes()
        except FileNotFoundError:
            return None

    def get(self, key: str, timeout: float | None = None) -> bytes:
        seconds = self.timeout if timeout is None else _seconds(timeout)
        limit = time.monotonic() + seconds
        while (found := self.look(key)) is None:
            if time.monotonic() > limit or self.look(FAILED) is not None:
                raise _late(self, key, seconds)
            time.sleep(NAP)
        return found

    def add(self, key: str, amount: int) -> int:
        """Each amount is a file whose number nobody else has."""
        number = 0
        while True:
            try:
                with self._at(f"{key}+{number}").open("x") as made:
                    made.write(str(amount))
                break
            except FileExistsError:
                number += 1
        return sum(int((self.look(f"{key}+{k}") or b"0") or b"0") for k in range(number + 1))

    def delete_key(self, key: str) -> bool:
        there = self._at(key).exists()
        self._at(key).unlink(missing_ok=True)
        return there

    def leave(self) -> None:
        if self.add("left", 1) == self.size:
            shutil.rmtree(self.path, ignore_errors=True)
