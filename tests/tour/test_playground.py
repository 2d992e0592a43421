"""The playground: a page on this machine runs the program that was typed, and nobody else's page can.

Input: requests as a browser sends them to a server of this process, and as another site's page would.
"""

import html
import http.client
import json
import re
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutaway import playground_command
from cutaway.cli import main
from cutaway.playground import runs
from cutaway.playground.server import Playground, source
from tests.tour.test_tour_page import Page

ENDLESS = "def f():\n    while True:\n        pass\n\n\nf()\n"


@contextmanager
def serving(folder, program="x = 1 < 2\n", seconds=110.0):
    server = Playground(program, folder, seconds)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.close()


def asked(server, method, path, body=None, **headers):
    """(status, text) of a request with the headers that the server's own page sends, but for those given."""
    own = {"Host": server.origin.removeprefix("http://")} | (
        {"Origin": server.origin} if method == "POST" else {}
    )
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=110)
    connection.request(method, path, body, {k: v for k, v in (own | headers).items() if v is not None})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def ran(server, program):
    status, text = asked(server, "POST", f"/{server.token}/run", program.encode())
    assert status == 200
    return runs.Ran(**json.loads(text))


def test_a_changed_program_is_shown_anew(tmp_path):
    (tmp_path / "mine.py").write_text("SCALE = 3\n")
    with serving(tmp_path, playground_command.EXAMPLE) as server:
        _, page = asked(server, "GET", f"/{server.token}/")
        typed = html.unescape(re.search(r"<textarea[^>]*>(.*)</textarea>", page, re.S)[1])
        assert typed == playground_command.EXAMPLE
        assert asked(server, "GET", f"/{server.token}/page.html")[0] == 404
        changed = typed.replace("e.sum(-1, keepdim=True)", "mine.SCALE").replace(
            "import", "import mine\nimport", 1
        )
        done = ran(server, changed)
        assert done.shown == "softmax" and not done.wrong and done.printed.startswith("tensor(")
        status, shown = asked(server, "GET", f"/{server.token}/page.html?run=1")
        assert status == 200 and {"s0-graph", "s0-cpp"} <= set(Page(shown).texts)
        assert "file:///" not in shown
        links = re.findall(r'target="_blank" href="(source/[^"#]+)"', shown)
        assert len(links) > 10
        for link in links:
            assert asked(server, "GET", f"/{server.token}/{link}")[0] == 200, link
        assert html.escape(changed) in asked(server, "GET", f"/{server.token}/")[1], (
            "a reload has what you typed"
        )


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("def f(:\n", r'File "program.py", line 1\n.*\n.*\^\n.*SyntaxError'),
        ("x = 1\n", "defines no function"),
        (
            "def f():\n    return 1 / 0\n\n\nf()\n",
            r'\ATraceback.*\n  File "program.py", line 5.*\n(.*\n)*ZeroDivisionError',
        ),
    ],
    ids=["syntax", "no function", "raises"],
)
def test_what_is_wrong_is_said(program, says, tmp_path):
    done = runs.run(program, tmp_path, tmp_path, 110)
    assert re.search(says, done.wrong), done.wrong
    assert not done.shown and str(tmp_path) not in done.wrong


def test_a_program_that_does_not_end_is_ended_and_so_are_its_processes(tmp_path):
    began = time.monotonic()
    left = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(90)'])\n{ENDLESS}"
    done = runs.run(left, tmp_path, tmp_path, 4)
    assert (
        "still ran after 4 s" in done.wrong and time.monotonic() - began < 60
    )  # its child has the pipes, too


def test_one_program_runs_at_a_time(tmp_path):
    with serving(tmp_path) as server, server.running:
        assert "still runs" in ran(server, ENDLESS).wrong


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/", {}),
        ("GET", "/page.html", {}),
        ("GET", "/wrong/", {}),
        ("POST", "/run", {}),
        ("POST", "/wrong/run", {}),
        ("POST", "/{token}/run", {"Origin": "http://elsewhere.example"}),
        ("POST", "/{token}/run", {"Origin": "null"}),
        ("POST", "/{token}/run", {"Origin": None}),
        ("POST", "/{token}/run", {"Host": "elsewhere.example"}),
        ("GET", "/{token}/", {"Host": "elsewhere.example"}),
    ],
)
def test_nobody_else_is_heard(method, path, headers, tmp_path, monkeypatch):
    monkeypatch.setattr(Playground, "ran", lambda *_: pytest.fail("it ran"))
    with serving(tmp_path) as server:
        status, text = asked(
            server, method, path.format(token=server.token), b"x = 1" if method == "POST" else None, **headers
        )
    assert status == 403 and "Refused: open the address" in text


def test_it_listens_to_this_machine_only_and_each_start_has_its_own_token(tmp_path):
    with serving(tmp_path) as one, serving(tmp_path) as two:
        assert one.server_address[0] == "127.0.0.1"
        assert one.token != two.token and len(one.token) >= 32
        assert asked(one, "GET", f"/{one.token}/nothing")[0] == 404
        assert asked(one, "POST", f"/{one.token}/run", b"x" * 200_001)[0] == 413


def test_only_files_of_the_packages_are_shown():
    assert "def " in source("cutaway/explorer.py")
    for path in (
        "../secret.py",
        "conftest.py",
        "/etc/passwd",
        "cutaway/../conftest.py",
        "cutaway/page/page.css",
    ):
        assert source(path) is None, path


def test_the_page_loads_nothing_from_elsewhere():
    text = (Path(runs.__file__).parent / "page.html").read_text(encoding="utf-8")
    assert "//" not in re.sub(r"<!doctype.*?>", "", text) and "innerHTML" not in text


def test_the_function_that_is_shown():
    def name(text):
        return runs.shown_name(runs.ast.parse(text))

    assert name("def f(): pass\n@cutaway.compile\ndef g(): pass\ndef h(): pass") == "g"
    assert name("def f(): pass\ndef g(): pass") == "g"
    assert name("def f(): pass\nfast = cutaway.compile(f)") == "fast"
    assert name("x = re.compile_more('a')") is None


def test_the_command_prints_the_address_and_ends_at_a_signal(tmp_path, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text("y = '<b>'\n")
    seen = {}

    def interrupted(server):
        seen.update(program=server.program, beside=server.beside, folder=Path(server.folder.name))
        raise KeyboardInterrupt

    monkeypatch.setattr(Playground, "serve_forever", interrupted)
    done = CliRunner().invoke(main, ["playground", str(script)])
    assert done.exit_code == 0 and re.search(r"^Open http://127\.0\.0\.1:\d+/[\w-]{32}/$", done.output, re.M)
    assert seen["program"] == "y = '<b>'\n" and seen["beside"] == tmp_path.resolve()
    assert not seen["folder"].exists()


def test_a_port_that_is_taken_is_said(tmp_path):
    with serving(tmp_path) as server:
        done = CliRunner().invoke(main, ["playground", "--port", str(server.server_port)])
    assert done.exit_code == 1 and f"port {server.server_port} cannot be used" in done.output
