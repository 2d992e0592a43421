"""Building: kernels that run, errors that can be read, each unit once per process."""

import ctypes
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stage4_runtime.runtime import compiler
from stage4_runtime.runtime.build import _cpp_flags, sleeping_threads
from stage4_runtime.runtime.vector_math import has_vector_version, vector_math_flags
from stage4_runtime.tests.programs import SUM_SOURCE, cpp_unit
from stage_contracts import config
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.program import SourceUnit, Target

first = pytest.mark.conformance("build", tier="first")
core = pytest.mark.conformance("build", tier="core")
full = pytest.mark.conformance("build", tier="full")

TWO_KERNELS = """\
#include <cstdint>
extern "C" int64_t twice(
    const double* __restrict__ x,  // 4 of them
    double* __restrict__ y) { for (int i = 0; i < 4; ++i) y[i] = 2 * x[i]; return 0; }
extern "C" int64_t refuse(double* y) { return 1; }
"""


def run_sum(kernel):
    x, y = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
    assert kernel(x.ctypes.data, y.ctypes.data) == 0
    np.testing.assert_array_equal(y, x + 1)


@first
def test_a_unit_becomes_kernels_that_take_addresses(seam):
    """Build returns each kernel by its name; a kernel takes the addresses of its buffers."""
    run_sum(seam("build")(cpp_unit())["kernel0"])


@first
def test_two_kernels_and_their_return_codes(seam):
    """A unit may hold several kernels; each returns 0, or the code of its error."""
    kernels = seam("build")(cpp_unit(TWO_KERNELS, ("twice", "refuse")))
    x, y = np.arange(4.0), np.empty(4)
    assert kernels["twice"](x.ctypes.data, y.ctypes.data) == 0
    np.testing.assert_array_equal(y, 2 * x)
    assert kernels["refuse"](y.ctypes.data) == 1


def test_a_kernel_is_found_by_its_own_header(seam):
    """Not by a function of a longer type, nor by one whose name ends alike."""
    source = """\
#include <stdint.h>
static uint64_t twice(double x) { return (uint64_t)(2 * x); }
static int64_t not_twice(const double* x, double* y, int64_t n) { return x == y; }
extern "C" int64_t doubled(const double* x,
    double* y) { y[0] = (double)twice(x[0]); return not_twice(x, y, 1); }
"""
    (kernel,) = seam("build")(cpp_unit(source, ("doubled",))).values()
    x, y = np.full(1, 3.0), np.empty(1)
    assert kernel(x.ctypes.data, y.ctypes.data) == 0 and y[0] == 6
    assert kernel.argtypes == [ctypes.c_void_p, ctypes.c_void_p]
    with pytest.raises(BuildError, match="no kernel 'twice'"):
        seam("build")(cpp_unit(source.replace("doubled", "others"), ("twice",)))


@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_a_unit_needs_no_library_of_c_plus_plus_s(level):
    """A function that throws nothing and calls one that might, as those of libmvec do, asks for libstdc++ to end there."""
    source = """\
#include <stdint.h>
extern "C" long elsewhere(const char*);
static long number(const char* text) noexcept { return elsewhere(text); }
extern "C" int64_t numbers(const char* x, int64_t* y) {
    for (int i = 0; i < 4; ++i) y[i] = number(x + i);
    return 0;
}
"""
    library = compiler.compile_shared(source, "numbers", compiler.find_compiler(), (level,))
    assert b"numbers" in library and b"__gxx_personality" not in library


@core
def test_a_source_the_compiler_refuses(seam):
    """A source that does not compile raises BuildError with what the compiler said."""
    with pytest.raises(BuildError) as raised:
        seam("build")(cpp_unit(SUM_SOURCE.replace("1.0f", "one")))
    message = str(raised.value)
    assert "'one' was not declared" in message or "undeclared identifier 'one'" in message
    path = Path(message.rpartition("The source is ")[2].partition(";")[0])
    assert "one + x[i]" in path.read_text()
    for left in path.parent.iterdir():
        left.unlink()
    path.parent.rmdir()


@core
def test_no_compiler(seam, monkeypatch, tmp_path):
    """Without a compiler, build raises CompilerMissing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(
        CompilerMissing, match="none of g\\+\\+, clang\\+\\+, c\\+\\+ is on the path; install"
    ):
        seam("build")(cpp_unit())


@full
def test_a_configured_compiler_that_is_not_there(seam):
    with (
        config.patch(cxx="/nowhere/c++"),
        pytest.raises(CompilerMissing, match="'/nowhere/c\\+\\+' was not found"),
    ):
        seam("build")(cpp_unit())


@full
def test_a_compiler_that_does_not_run(seam, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with config.patch(cxx=str(broken)), pytest.raises(CompilerMissing, match="--version fails"):
        seam("build")(cpp_unit())


@full
def test_a_compiler_given_as_words(seam):
    with config.patch(cxx="g++ -DSHIFT=1"):
        run_sum(seam("build")(cpp_unit(SUM_SOURCE.replace("1.0f", "SHIFT")))["kernel0"])


@full
def test_a_kernel_that_is_not_in_the_unit(seam):
    with pytest.raises(BuildError, match=r"no kernel 'kernel1'; expected extern \"C\" int64_t kernel1"):
        seam("build")(cpp_unit(kernels=("kernel0", "kernel1")))


@full
def test_an_unknown_language(seam):
    with pytest.raises(BuildError, match="'fortran'; expected one of cpp, triton"):
        seam("build")(SourceUnit("u", "fortran", "", (), Target("fortran")))


@full
def test_threads_that_build_one_unit_build_it_once(seam, event_log):
    results = []
    threads = [threading.Thread(target=lambda: results.append(seam("build")(cpp_unit()))) for _ in range(4)]
    settings = config.current()
    for thread in threads:  # a new thread starts with the configuration of the process, not with ours
        run = thread._target
        thread._target = lambda run=run: _with(settings, run)
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and len(event_log("build")) == 1
    for kernels in results:
        run_sum(kernels["kernel0"])


def _with(settings, run):
    with config.patch({f"runtime.{k}": v for k, v in vars(settings.runtime).items()}):
        run()


def test_flags_that_the_compiler_refuses_are_dropped(seam, tmp_path, event_log):
    """A compiler without OpenMP: the code is right without it, and the event_log says so."""
    picky = tmp_path / "picky c++"
    picky.write_text(
        '#!/bin/sh\nfor a in "$@"; do [ "$a" = -fopenmp ] && echo "unknown flag" >&2 && exit 1; done\n'
        'exec g++ "$@"\n'
    )
    picky.chmod(0o755)
    with config.patch(cxx=str(picky), cxx_flags="-O1 -fopenmp"):
        run_sum(seam("build")(cpp_unit())["kernel0"])
    (event,) = event_log("fallback")
    assert event.name == "compiler_flags" and event.details["dropped"] == "-fopenmp"


def flags_of(cxx, flags):
    with config.patch(cxx=cxx, cxx_flags=flags):
        return _cpp_flags(cpp_unit(SUM_SOURCE))


def test_passes_are_left_out_of_gccs_third_level_and_a_users_flag_decides():
    if not (gcc := shutil.which("g++")) or "clang" in compiler._version((gcc,)):
        pytest.skip("no g++")
    assert flags_of(gcc, "-O3") == (*compiler.LEFT_OUT, "-O3")
    assert flags_of(gcc, "-O3 -ftree-vrp")[-1] == "-ftree-vrp"
    assert flags_of(gcc, "-O2") == ("-O2",)
    if clang := shutil.which("clang++"):
        assert flags_of(clang, "-O3") == ("-O3",)


def test_the_compiler_in_force_is_the_configured_one_then_the_environments(monkeypatch):
    assert Path(compiler.find_compiler().command[0]).name in compiler.CANDIDATES
    monkeypatch.setenv("CXX", "g++ -DFROM_ENVIRONMENT")
    assert compiler.find_compiler().command[1:] == ("-DFROM_ENVIRONMENT",)
    with config.patch(cxx="g++"):
        assert compiler.find_compiler().command[1:] == ()


def test_kernels_run_without_the_gil(seam):
    kernel = seam("build")(cpp_unit())["kernel0"]
    assert not kernel._flags_ & ctypes._FUNCFLAG_PYTHONAPI


def test_nothing_is_left_in_the_temporary_folder(seam, monkeypatch, tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    run_sum(seam("build")(cpp_unit())["kernel0"])
    with config.patch(cache=False):
        run_sum(seam("build")(cpp_unit(name="another"))["kernel0"])
    assert not list(place.iterdir())


def fake_compiler(path, does):
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit 0\n{does}\n')
    path.chmod(0o755)
    return str(path)


def test_a_compiler_that_hangs_is_stopped_with_what_it_started(seam, tmp_path):
    hangs = fake_compiler(tmp_path / "hangs", f"sleep 600 & echo $! > {tmp_path}/child; wait")
    told = pytest.raises(CompilerMissing, match=r"took more than 1 seconds for unit and was stopped; set")
    with config.patch({"runtime.cxx": hangs, "runtime.compile_seconds": 1.0}), told:
        seam("build")(cpp_unit())
    child = Path("/proc") / (tmp_path / "child").read_text().strip()
    for _ in range(50):
        if not child.exists() or "(zombie)" in (child / "status").read_text():
            return
        time.sleep(0.1)
    pytest.fail("the compiler's own child still runs")


@pytest.mark.parametrize(
    "does, said",
    [
        ("kill -9 $$", "SIGKILL"),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1", "cc1plus"),
    ],
)
def test_a_compiler_that_is_killed(seam, tmp_path, does, said):
    told = pytest.raises(CompilerMissing, match=f"was killed .*{said}.* is there memory enough")
    with config.patch(cxx=fake_compiler(tmp_path / "killed", does)), told:
        seam("build")(cpp_unit())


LOOP_OF_CALLS = """\
#ifdef CUTAWAY_MVEC_sinf
extern "C" __attribute__((simd("notinbranch"), const)) float sinf(float) noexcept;
#endif
extern "C" void sines(const float* __restrict x, float* __restrict y) { for (int i = 0; i < 64; ++i) y[i] = sinf(x[i]); }
"""


@pytest.mark.skipif(not has_vector_version("sinf"), reason="no libmvec here")
@pytest.mark.skipif(not shutil.which("g++"), reason="the flag is for GCC")
def test_a_loop_fills_the_widest_vector_on_a_cpu_tuned_for_half_of_it(tmp_path):
    """GCC's tuning for skylake-avx512 and its successors takes half a vector: such a loop was five times slower."""
    (tmp_path / "unit.cpp").write_text(LOOP_OF_CALLS)
    command = "g++ -O3 -march=skylake-avx512 -fno-math-errno -S -o - unit.cpp".split()
    flags = vector_math_flags(LOOP_OF_CALLS)
    text = subprocess.run([*command, *flags], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "_ZGVeN16v_sinf" in text and "_ZGVdN8v_sinf" not in text


@pytest.mark.parametrize("helper", ["from_bfloat16", "Lanes", "stream_lines"])
def test_loops_that_hand_on_whole_registers_are_as_wide_as_those(helper):
    """A helper takes the widest register: from a loop of narrower ones it would come through memory."""
    assert vector_math_flags(f"float x = cutaway::{helper}(y);") == ("-mprefer-vector-width=512",)
    assert vector_math_flags("float x = cutaway::sign(y);") == ()


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "active"}, {"GOMP_SPINCOUNT": "7"}], ids=str)
def test_idle_threads_sleep_soon_unless_the_user_says_otherwise(monkeypatch, own):
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    with sleeping_threads():
        inside = {name: os.environ[name] for name in names if name in os.environ}
    assert inside == (own or {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "2000"})
    assert {name: os.environ[name] for name in names if name in os.environ} == own
