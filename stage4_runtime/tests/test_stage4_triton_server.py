"""A server forks one process for each Triton kernel: what a kernel does to its process reaches no other.

Input: units whose source does something when it is loaded. Skipped where Triton is not installed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from stage4_runtime.runtime import triton_compile, triton_server, triton_units
from stage4_runtime.tests.test_stage4_cuda import SIN_COS, needs_triton, triton_unit
from stage_contracts.errors import BuildError

pytestmark = needs_triton


def doing(statement):
    return triton_unit(f"import os, time\n{statement}\n{SIN_COS}")


def refused(unit):
    with pytest.raises(BuildError) as raised:
        triton_units.make(unit)
    return str(raised.value)


def the_server():
    return triton_server.begin(90, triton_units._environment())


def test_it_makes_what_a_process_of_its_own_makes(monkeypatch):
    served = triton_units.make(triton_unit())
    asked = triton_units._in_own_process
    monkeypatch.setattr(triton_server, "begin", lambda *_: None)
    used = []
    monkeypatch.setattr(triton_units, "_in_own_process", lambda *a: used.append(1) or asked(*a))
    alone = triton_units.make(triton_unit())
    assert used and alone["sin_cos.json"] == served["sin_cos.json"]
    code = [
        files["sin_cos.ptx"].partition(b".file")[0] for files in (alone, served)
    ]  # then the folder's path
    assert code[0] == code[1] and b".entry sin_cos" in code[0]


def test_one_server_serves_all():
    first = the_server()
    triton_units.make(triton_unit())
    assert the_server() is first


def test_a_kernel_that_ends_its_process_is_told_and_the_server_lives():
    server = the_server()
    assert "nothing; its process ended with -6" in refused(doing("os.abort()"))
    assert "nothing; its process ended with 3" in refused(doing("os._exit(3)"))
    assert "ValueError: no" in refused(doing("raise ValueError('no')"))
    assert server.process.poll() is None and the_server() is server


def test_what_is_stopped_leaves_nothing_running(monkeypatch, tmp_path):
    triton_units.make(triton_unit())  # the server is ready
    monkeypatch.setattr(triton_units, "TIME_LIMIT", 1)
    file = tmp_path / "children"
    wait = (
        f"import subprocess; p = subprocess.Popen(['sleep', '60']); open({str(file)!r}, 'w').write("
        "f'{os.getpid()} {p.pid}'); time.sleep(60)"
    )
    assert "nothing for 1 seconds; it was stopped" in refused(doing(wait))
    for number in file.read_text().split():
        until = time.monotonic() + 10
        while is_running(number):
            assert time.monotonic() < until, f"process {number} still runs"
            time.sleep(0.05)


def is_running(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_has_the_environment_of_now(monkeypatch):
    the_server()
    monkeypatch.setenv("CUTAWAY_TEST_OF_SERVER", "later")
    assert "ValueError: later" in refused(doing("raise ValueError(os.environ['CUTAWAY_TEST_OF_SERVER'])"))


def test_a_server_that_was_killed_costs_time_alone():
    server = the_server()
    server.process.kill()
    assert triton_units.make(triton_unit())["sin_cos.cubin"].startswith(b"\x7fELF")
    server.process.wait()
    assert the_server() is not server


def test_it_ends_with_the_process_that_began_it():
    program = (
        "from stage4_runtime.runtime import triton_server, triton_units\n"
        "print(triton_server.begin(90, triton_units._environment()).process.pid)"
    )
    number = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    until = time.monotonic() + 30
    while is_running(number):
        assert time.monotonic() < until, "the server is still there"
        time.sleep(0.05)


def test_a_fork_begins_its_own():
    server = the_server()
    read, write = os.pipe()
    if os.fork() == 0:
        own = the_server()
        os.write(write, str(own.process.pid).encode())
        own.process.kill()
        os._exit(0)
    os.close(write)
    os.wait()
    with os.fdopen(read) as said:
        assert int(said.read()) != server.process.pid


def test_what_takes_long_is_done_before_the_fork():
    """Triton's hash of its own files takes longer than a kernel: its name in another version must not be missed."""
    program = (
        "import os, sys; sys.path.insert(0, 'stage4_runtime/runtime'); import triton_compile\n"
        "triton_compile.know_triton(90)\n"
        "from triton.compiler import compiler; from triton.runtime import cache\n"
        "key = getattr(cache, 'triton_key', None) or compiler.triton_key\n"
        "print(key.cache_info().currsize, len(os.listdir('/proc/self/task')))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "1"], "the key is not known, or a thread runs, so it may not fork"


@pytest.mark.parametrize(
    ("first", "second", "named", "chosen"),
    [
        ("12.8", "12.9", {}, "12.9"),  # Triton 3.6
        ("12.9", "13.4", {}, "12.9"),  # Triton 3.9
        ("12.10", "13.4", {}, "12.10"),
        ("12.4", "12.8", {}, "12.4"),  # neither is sound: Triton's choice
        ("12.8", "12.9", {"TRITON_PTXAS_PATH": "/opt/ptxas"}, "12.8"),  # the user's
    ],
)
def test_kernels_are_assembled_by_the_first_sound_ptxas(monkeypatch, first, second, named, chosen):
    """12.8 gave y + |y| for |y| + |y| of halves (random program 60346 on an H200)."""
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    for name, value in named.items():
        monkeypatch.setenv(name, value)
    tools = SimpleNamespace(ptxas=tool(first), ptxas_blackwell=tool(second))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(knobs=SimpleNamespace(nvidia=tools)))
    triton_compile.choose_assembler.__wrapped__()
    assert tools.ptxas in (chosen, tool(chosen))


def tool(version):
    return SimpleNamespace(version=version, path=version)


def test_triton_takes_the_assembler_that_it_is_given():
    program = (
        "import sys; sys.path.insert(0, 'stage4_runtime/runtime'); import triton_compile\n"
        "from triton import knobs\n"
        "triton_compile.SOUND_ASSEMBLER = triton_compile._version(knobs.nvidia.ptxas_blackwell)\n"
        "triton_compile.know_triton(90)\n"
        "from triton.backends.nvidia.compiler import get_ptxas\n"
        "print(get_ptxas(90).version == knobs.nvidia.ptxas_blackwell.version)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_PTXAS_PATH"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"]


def test_an_assembler_of_the_users_is_another_key(monkeypatch):
    unit = triton_unit()
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    before = triton_units.key(unit)
    monkeypatch.setenv("TRITON_PTXAS_PATH", "/opt/ptxas")
    assert triton_units.key(unit) != before
