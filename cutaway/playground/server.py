"""The playground's server: it hears this machine only, and runs a program only for the page that it gave out itself.

Input: requests of a browser. Every address begins with a token that only the printed address has; a page of another
site cannot know it, and is refused by its Origin, or by its Host if its name leads to this machine.
"""

from __future__ import annotations

import html
import json
import secrets
import tempfile
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cutaway.playground.runs import ROOT, Ran, run

PAGE = Path(__file__).with_name("page.html")
MOST = 200_000  # bytes of a program
REFUSED = (
    "Refused: open the address that `cutaway playground` printed; this request did not come from its page.\n"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self' 'unsafe-inline' data:; frame-ancestors 'self'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


class Playground(ThreadingHTTPServer):
    """A server on 127.0.0.1. `address` is what a browser opens; `close` ends it and removes its folder."""

    daemon_threads = True

    def __init__(self, program: str, beside: Path, seconds: float, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.token, self.program, self.beside, self.seconds = (
            secrets.token_urlsafe(24),
            program,
            beside,
            seconds,
        )
        self.folder = tempfile.TemporaryDirectory(prefix="cutaway-playground-")
        self.running = threading.Lock()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def address(self) -> str:
        return f"{self.origin}/{self.token}/"

    def close(self) -> None:
        self.server_close()
        self.folder.cleanup()

    def ran(self, text: str) -> Ran:
        """Run a program, unless one is running."""
        if not self.running.acquire(blocking=False):
            return Ran(wrong="The program before this one still runs; wait for its end, and run again.")
        try:
            self.program = text
            return run(text, Path(self.folder.name), self.beside, self.seconds)
        finally:
            self.running.release()

    def editor(self) -> str:
        page = PAGE.read_text(encoding="utf-8").replace("<!--seconds-->", f"{self.seconds:g}")
        return page.replace("<!--program-->", html.escape(self.program))

    def explained(self) -> str | None:
        """The page of the last run. A browser follows no link to the disk from here: those lead to `source`."""
        page = Path(self.folder.name) / "page.html"
        if not page.is_file():
            return None
        text = page.read_text(encoding="utf-8")
        return text.replace(f'href="{ROOT.as_uri()}/', 'target="_blank" href="source/')


def source(path: str) -> str | None:
    """A file of the packages, for reading."""
    place = (ROOT / path).resolve()
    packages = {*ROOT.glob("stage*"), ROOT / "cutaway", ROOT / "labs"}
    if place.suffix not in (".py", ".md") or packages.isdisjoint(place.parents) or not place.is_file():
        return None
    return place.read_text(encoding="utf-8")


class _Handler(BaseHTTPRequestHandler):
    server: Playground

    def do_GET(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        kind = "html" if path in ("", "page.html") else "plain"
        if path == "":
            text: str | None = self.server.editor()
        elif path == "page.html":
            text = self.server.explained()
        else:
            text = source(path.removeprefix("source/")) if path.startswith("source/") else None
        self._answer(
            200 if text is not None else 404, text if text is not None else "There is no such page.\n", kind
        )

    def do_POST(self) -> None:
        path = self._allowed_path()
        if path is None:
            return
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Origin") != self.server.origin:
            self._answer(403, REFUSED)
        elif path != "run":
            self._answer(404, "There is no such page.\n")
        elif not length.isdigit() or int(length) > MOST:
            self._answer(413, f"A program has at most {MOST} bytes.\n")
        else:
            ran = self.server.ran(self.rfile.read(int(length)).decode("utf-8", "replace"))
            self._answer(200, json.dumps(asdict(ran)), "json")

    def _allowed_path(self) -> str | None:
        """What follows the token; None, and an answer, where the request is not from the playground's own page."""
        token, _, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        if known and f"http://{self.headers.get('Host')}" == self.server.origin:
            return path
        self._answer(403, REFUSED)
        return None

    def _answer(self, status: int, text: str, kind: str = "plain") -> None:
        body = text.encode()
        self.send_response(status)
        media = "application/json" if kind == "json" else f"text/{kind}; charset=utf-8"
        for name, value in {"Content-Type": media, "Content-Length": str(len(body)), **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The terminal shows the address, and no list of requests."""
