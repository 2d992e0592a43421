"""torch's variables and configuration fields: each is carried out or answered in one line, once, and never a traceback.

Input: the table of requests; processes started with variables; and, where torch is installed, the names of every variable
and every field that torch's own compiler reads, so that none is left without an answer.
"""

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cutaway
from cutaway.debug import requests, torch_fields
from cutaway.debug.logs import logs_on, set_logs
from cutaway.torch_api import torch
from stage_contracts import config

PROGRAM = """
import cutaway
f = cutaway.compile(lambda x: (x * 2).sum(), backend="eager")
print(f(cutaway.ones(3)).item(), len(f.entries))
"""


def run(program=PROGRAM, *options, **variables):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTAWAY_", *requests.PREFIXES))}
    words = [sys.executable, *options, "-c", program]
    return subprocess.run(words, env={**plain, **variables}, capture_output=True, text=True, timeout=100)


@pytest.fixture
def logs_over():
    yield
    set_logs()


# ---- variables ---------------------------------------------------------------------------------------------------


def test_a_variable_that_is_not_honoured_gets_one_line_and_ours_win():
    result = run(
        TORCHINDUCTOR_COORDINATE_DESCENT_TUNING="1",
        TORCH_COMPILE_DISABLE="1",
        CUTAWAY_CAPTURE_DISABLE="0",
        TORCH_HOME="/nowhere",
        TORCHDYNAMO_VERBOS="1",
    )
    assert result.stdout == "6.0 1\n", "ours says that it is compiled"
    assert result.stderr.splitlines() == [
        "cutaway: TORCHDYNAMO_VERBOS is not a variable that is known here; did you mean TORCHDYNAMO_VERBOSE?",
        "cutaway: TORCHINDUCTOR_COORDINATE_DESCENT_TUNING is not honoured here; nearest: TORCHINDUCTOR_MAX_AUTOTUNE=1 "
        "measures a few configurations of each kernel, once",
    ]


def test_variables_that_act():
    assert run(TORCH_COMPILE_DISABLE="1").stdout == run(TORCHDYNAMO_DISABLE="1").stdout == "6.0 0\n"
    assert run(TORCHDYNAMO_DEBUG_FUNCTION="another").stdout == "6.0 0\n"
    assert run(TORCHDYNAMO_DEBUG_FUNCTION="<lambda>").stdout == "6.0 1\n"
    steps = run(TORCH_LOGS="dynamo").stderr
    assert "[dynamo] Step 1: torchdynamo start tracing <lambda> <string>:3" in steps
    assert re.findall(r"Step (\d): (\w+ ?\w*)", steps)[:4] == [
        ("1", "torchdynamo start"), ("1", "torchdynamo done"), ("2", "calling compiler"), ("2", "done compiler"),
    ]  # fmt: skip


NONSENSE = {
    "TORCH_LOGS": "nonsense",
    "CUTAWAY_LOGS": "+dynmo,-,,+",
    "TORCH_LOGS_OUT": "/no/such/folder/that/can/be/made",
    "TORCH_COMPILE_DEBUG": "maybe",
    "TORCHDYNAMO_SUPPRESS_ERRORS": "perhaps",
    "TORCHDYNAMO_NONSENSE": "1",
    "TORCHINDUCTOR_": "",
    "TORCHDYNAMO_REPRO_AFTER": "lunch",
    "CUTAWAY_NONSENSE": "1",
    "CUTAWAY_CONFIG": "/no/such/file.toml",
    "CUTAWAY_DEBUG_LOG_FORMAT": "yaml",
}


def test_nonsense_in_any_variable_is_an_answer_in_a_second_and_never_a_traceback():
    """All of it at once, with warnings that raise: what is asked wrongly is said, and the program runs."""
    began = time.perf_counter()
    plain = run("import cutaway")
    middle = time.perf_counter()
    result = run("import cutaway", "-W", "error", **NONSENSE)
    ended = time.perf_counter()
    assert result.returncode == 0 and "Traceback" not in result.stderr
    assert not plain.stderr
    for name in NONSENSE:
        if name not in ("TORCH_LOGS_OUT", "TORCH_LOGS"):  # nothing was logged; ours wins over torch's
            assert name in result.stderr, name
    assert (ended - middle) - (middle - began) < 1, "an answer within the first second of import"
    assert (
        "TORCH_LOGS='nonsense': there is no log named" in run("import cutaway", TORCH_LOGS="nonsense").stderr
    )


def test_a_file_that_cannot_be_written_is_said_once():
    result = run(TORCH_LOGS="dynamo", TORCH_LOGS_OUT="/proc/no/such/log")
    assert result.stdout == "6.0 1\n" and result.stderr.count("cutaway: cannot write /proc/no/such/log") == 1


def of_torch(*folders):
    """torch's sources, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None:
        pytest.skip("torch, the oracle, is not installed")
    for folder in folders:
        yield from (Path(spec.origin).parent / folder).rglob("*.py")


def test_every_variable_that_torchs_compiler_reads_has_an_answer():
    """The axis is torch's own source. Of its 267 names one meant something before, and none was answered."""
    found = set()
    for path in of_torch("_dynamo", "_inductor", "_functorch", "_logging", "fx"):
        text = path.read_text(encoding="utf-8", errors="replace")
        found |= set(re.findall(r"""["']((?:TORCH|AOT_|PARTITIONER_)[A-Z_0-9]+)["']""", text))
    found = {name for name in found if name.startswith(requests.PREFIXES)}
    assert len(found) > 200
    for name in found:
        assert name in requests._HONOURED or " nearest: " in requests.answer(name), requests.answer(name)


def test_no_pattern_is_shadowed_by_one_before_it():
    seen = []
    for pattern, _ in requests.NEAREST:
        example = pattern.replace("*", "X")
        assert requests.nearest(example) == dict(requests.NEAREST)[pattern], (pattern, seen)
        seen.append(pattern)


# ---- fields ------------------------------------------------------------------------------------------------------


def test_fields_that_act(logs_over):
    inductor, dynamo = torch._inductor.config, torch._dynamo.config
    with inductor.patch({"triton.cudagraphs": True, "fx_graph_cache": False}):
        settings = config.current().runtime
        assert settings.cuda_graphs and not settings.cache and inductor.triton.cudagraphs is True
    assert not config.current().runtime.cuda_graphs
    with config.patch():
        inductor.trace.enabled, dynamo.debug_dir_root = True, "/somewhere"
        assert inductor.debug and config.current().debug.folder_root == "/somewhere"
        torch._functorch.config.activation_memory_budget = 0
        assert config.current().autograd.activation_memory_budget == 0.0
    assert not inductor.trace.enabled
    import logging

    dynamo.log_level = logging.INFO
    assert {"dynamo", "aot", "inductor"} <= logs_on() and "guards" not in logs_on()
    dynamo.log_level = logging.DEBUG
    assert {"guards", "output_code"} <= logs_on()
    dynamo.log_level = logging.WARNING


def test_the_guides_last_names_act(tmp_path, monkeypatch):
    """Those of the line-by-line check: a log file, buffers that are not shared, scalars by a variable."""
    with config.patch():
        torch._dynamo.config.log_file = str(tmp_path / "log.txt")
        torch._inductor.config.allow_buffer_reuse = False
        assert config.current().debug.log_file == str(tmp_path / "log.txt")
        assert not config.current().runtime.reuse_memory
    made = config.from_environment({"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"})
    assert made.capture.capture_scalar_outputs


def test_what_changes_nothing_is_said_once(logs_over, capsys):
    with torch._inductor.config.patch(max_autotune_gemm=True):
        assert torch._inductor.config.max_autotune_gemm is True
    torch._inductor.config.max_autotune_gemm = True
    torch._inductor.config.max_autotune_gemm = False
    torch._dynamo.config.cprofile = False  # what it is already: nothing to say
    assert capsys.readouterr().err == (
        "cutaway: torch._inductor.config.max_autotune_gemm is not honoured here; nearest: runtime.max_autotune measures "
        "a few configurations of each kernel, and products with what follows them\n"
    )


def test_what_is_added_to_a_field_is_a_request_too(logs_over, capsys):
    torch._inductor.config.pre_grad_fusion_options["batch_linear"] = {}
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" is not honoured here; nearest: ")[0] for line in lines] == [
        "cutaway: torch._inductor.config.pre_grad_fusion_options",
    ]


@pytest.mark.parametrize("module", torch_fields.FIELDS)
def test_no_field_of_torchs_is_left_without_an_answer(module):
    """Every name that an assignment in torch's own configuration has."""
    for path in of_torch(module.split(".")[1]):
        if path.name == "config.py" and path.parent.name == module.split(".")[1]:
            names = set(re.findall(r"^(\w+)(?:: [^=]+)? = ", path.read_text(encoding="utf-8"), re.M))
            missing = {n for n in names if n[0] != "_" and n not in torch_fields.known(module)}
            assert not missing - {"is_fbcode", "log", "T"}


@pytest.mark.parametrize("module", torch_fields.FIELDS)
def test_every_field_reads_writes_and_patches(module, logs_over):
    found = torch._dynamo.config if "dynamo" in module else getattr(torch, module.split(".")[1]).config
    for name in torch_fields.known(module):
        group = found
        *groups, last = name.split(".")
        for part in groups:
            group = getattr(group, part)
        value = getattr(group, last)
        assert last in dir(group)
        with config.patch(), found.patch({name: value}):
            setattr(group, last, value)
            assert getattr(group, last) == value, name
    with pytest.raises(AttributeError, match="Cutaway has no " + module.replace(".", r"\.")):
        found.no_such_field = 1


@pytest.mark.parametrize("module", torch_fields.FIELDS)
def test_every_field_that_is_listed_is_one_of_torchs(module):
    """`base_dir`, `log_level` and the like are torch 2.0's, which the guides still name."""
    old = {
        "fail_on_cache_limit_hit",
        "cache_size_limit_verbose",
        "verbose_progress",
        "realize_reads_threshold",
        "log_file",  # the troubleshooting guide's; log_file_name in torch 2.0
    }
    words = set()
    for path in of_torch(module.split(".")[1]):
        if path.name == "config.py":
            words |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    missing = {name for name in torch_fields.known(module) if name.split(".")[-1] not in words} - old
    assert not missing


def test_a_configuration_file_and_object(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(
        '[runtime]\ncache = false\n[debug]\nlogs = "dynamo"\n[capture]\nrecompile_limit = "two"\n'
    )
    problems = []
    read = config.from_environment(
        {"CUTAWAY_CONFIG": str(path), "CUTAWAY_DEBUG_LOGS": "aot"}, problems.append
    )
    assert not read.runtime.cache and read.debug.logs == "aot", "a variable wins over the file"
    assert problems == [
        f"CUTAWAY_CONFIG={str(path)!r}: capture.recompile_limit expects int, but got 'two' (str)"
    ]
    with config.patch(read, recompile_limit=3):
        assert not config.current().runtime.cache and cutaway.config.current().capture.recompile_limit == 3
    assert config.current().runtime.cache


def test_options_of_compile_by_torchs_names(logs_over, capsys, tmp_path):
    options = {
        "trace.enabled": True,
        "trace.debug_dir": str(tmp_path),
        "max_autotune": True,
        "max_autotune_gemm": True,
        "fx_graph_cache": False,
    }
    f = torch.compile(lambda x: x + 1, options=options)
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert list(tmp_path.glob("run_*/torchinductor/model__*/output_code.py"))
    said_now = capsys.readouterr().err.splitlines()
    assert said_now == [
        "cutaway: the option 'max_autotune_gemm' is not honoured here; nearest: runtime.max_autotune measures a few "
        "configurations of each kernel, and products with what follows them"
    ]
    with pytest.raises(RuntimeError, match="no configuration field 'trace.enable'"):
        torch.compile(lambda x: x, options={"trace.enable": True})
