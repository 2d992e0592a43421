"""Every field of torch._dynamo.config: honoured, with a test of its effect, or refused with the reason.

Input: the fields by torch's names. EFFECTS has for each honoured field a function that shows its effect; a test walks
the tables and misses none.
"""

import gc
import importlib.util
import logging
import re
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import cutaway
from cutaway import compiler
from cutaway.debug import dynamo_fields, torch_fields
from cutaway.debug.logs import logs_on
from cutaway.torch_api import torch
from cutaway.torch_api.config_modules import LOGS
from stage_contracts import config

DYNAMO = "torch._dynamo.config"
FIELDS = torch._dynamo.config
HONOURED = (*torch_fields.FIELDS[DYNAMO], *torch_fields.LOGGED[DYNAMO], *LOGS)


def ones(*shape):
    return cutaway.ones(*shape)


def compiled(function, **options):
    return cutaway.compile(function, **{"backend": "eager", **options})


def entries_after(function, *calls):
    """How many entries the calls, one tuple of arguments each, leave."""
    f = compiled(function)
    for args in calls:
        f(*args)
    return len(f.entries)


def plus(x, n):
    return x + n


def speak(x, *said):
    print(*said)
    return x + 1


# ---- what each honoured field does ---------------------------------------------------------------------------------


def recompile_limit(name):
    """Calls with dtypes of their own: each needs an entry."""
    calls = [(ones(2).to(dtype),) for dtype in (cutaway.float32, cutaway.float64, cutaway.int64)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiler.reset()  # the count of the code below
        with FIELDS.patch({name: 2}):
            assert entries_after(lambda x: x + 1, *calls) == 2
        assert entries_after(lambda x: x + 1, *calls) == 3


def fail_on_limit(name):
    f = compiled(lambda x: x + 1)
    with FIELDS.patch({name: True, "recompile_limit": 1}):
        f(ones(2))
        with pytest.raises(compiler.RecompileError, match="fail_on_recompile_limit_hit is set"):
            f(ones(2).double())


def error_on_recompile(name):
    f = compiled(lambda x: x + 1)
    with FIELDS.patch({name: True}):
        f(ones(2))
        with pytest.raises(compiler.RecompileError, match="error_on_recompile is set"):
            f(ones(2).double())


SIZES = [(ones(n),) for n in (2, 3, 4, 5)]


def automatic_dynamic_shapes(name):
    def double(x):
        return x * 2

    assert entries_after(double, *SIZES) == 2
    with FIELDS.patch({name: False}):
        assert entries_after(double, *SIZES) == 4


def assume_static_by_default(name):
    with FIELDS.patch({name: False}):
        assert entries_after(lambda x: x * 2, *SIZES) == 1


def dynamic_shapes(name):
    with FIELDS.patch({name: False}):
        f = compiled(lambda x: x * 2, dynamic=True)
        for args in SIZES:
            f(*args)
        assert len(f.entries) == 4


def suppress_errors(name):
    def failing(graph, inputs):
        raise ValueError("no kernels today")

    f = compiled(lambda x: x + 1, backend=failing)
    with pytest.raises(Exception, match="no kernels today"):
        f(ones(1))
    g = compiled(lambda x: x + 1, backend=failing)
    with FIELDS.patch({name: True}):
        assert g(ones(1)).tolist() == [2]


def breaks_of(function, *args):
    f = compiled(function)
    f(*args)
    return len(f.breaks)


def capture_scalar_outputs(name):
    for on in (False, True):
        with FIELDS.patch({name: on}):
            assert (breaks_of(lambda x: x * x.sum().item(), ones(2)) == 0) is on


def capture_dynamic_output_shape_ops(name):
    for on in (False, True):
        with FIELDS.patch({name: on}):
            assert (breaks_of(lambda x: cutaway.nonzero(x) * 2, ones(2)) == 0) is on


def trace_numpy(name):
    for on in (False, True):
        with FIELDS.patch({name: on}):
            counter = compiler.CompileCounter()
            compiled(lambda x: np.sin(x) + 1, backend=counter)(np.ones(2))
            assert (counter.op_count > 0) is on


def repro_after(name, level=2):
    def failing(graph, inputs):
        raise ValueError("no kernels today")

    with (
        config.patch({"debug.folder_root": "found"}),
        FIELDS.patch({"repro_after": "dynamo", "repro_level": level}),
        pytest.raises(Exception, match="no kernels today"),
    ):
        compiled(lambda x: x + 1, backend=failing)(ones(1))
    return {path.name for path in Path().rglob("*.py")}


def repro_is_written(name):
    assert any("repro" in file for file in repro_after(name))


def repro_level(name):
    assert "minifier_launcher.py" not in repro_after(name, 1)
    assert "minifier_launcher.py" in repro_after(name, 2)


def replay_record_enabled(name):
    def failing(graph, inputs):
        raise ValueError("no kernels today")

    before = set(Path().rglob("*"))
    with (
        config.patch({"debug.folder_root": "found"}),
        FIELDS.patch({name: True}),
        pytest.raises(Exception, match="no kernels today"),
    ):
        compiled(lambda x: x + 1, backend=failing)(ones(1))
    assert set(Path().rglob("*")) - before


def disable(name):
    with FIELDS.patch({name: True}):
        assert entries_after(lambda x: x + 1, (ones(1),)) == 0


def in_config(field, value):
    """For a field whose effect other tests show under our name: it is that field."""

    def check(name):
        section, _, own = field.partition(".")
        with FIELDS.patch({name: value}):
            assert getattr(getattr(config.current(), section), own) == value

    return check


def specialize(one, other):
    def check(name):
        assert entries_after(plus, (ones(2), one), (ones(2), other)) == 1
        with FIELDS.patch({name: True}):
            assert entries_after(plus, (ones(2), one), (ones(2), other)) == 2

    return check


def do_not_emit_runtime_asserts(name):
    def promised(x):
        n = x.item()
        cutaway.torch_api.torch._check(n > 5)
        return cutaway.ones(2) * n

    for off in (False, True):
        with FIELDS.patch({name: off, "capture_scalar_outputs": True}):
            f = compiled(promised, fullgraph=True)
            f(cutaway.tensor(7))
            if off:
                assert f(cutaway.tensor(1)).tolist() == [1, 1]
            else:
                with pytest.raises(RuntimeError):
                    f(cutaway.tensor(1))


def allow_ignore_mark_dynamic(name):
    def fixed(x):
        return x * 2 if x.shape[0] == 3 else x

    def run():
        x = ones(3, 2)
        compiler.mark_dynamic(x, 0)
        return compiled(fixed)(x).tolist()

    with pytest.raises(compiler.ConstraintViolationError):
        run()
    with FIELDS.patch({name: True}):
        assert run() == [[2, 2]] * 3


def run_gc_after_compile(name):
    for on in (False, True):
        with FIELDS.patch({name: on}), mock.patch.object(gc, "collect") as collect:
            compiled(lambda x: x + 1)(ones(1))
        assert collect.called is on


LOG = logging.getLogger("tests.dynamo_config")


def reorderable_logging_functions(name, capsys):
    def program(x):
        print("before", x.shape[0])
        x = x * 2
        print("between", x)
        return x + 1

    counter = compiler.CompileCounter()
    with FIELDS.patch({name: {print}}):
        f = compiled(program, backend=counter, fullgraph=True)
        assert f(ones(2)).tolist() == f(ones(2)).tolist() == [3, 3]
    assert counter.frame_count == 1
    assert capsys.readouterr().out == "before 2\nbetween tensor([2., 2.])\n" * 2
    assert breaks_of(program, ones(2)) == 2


def ignore_logging_functions(name, capsys, caplog):
    def program(x):
        print("here")
        LOG.warning("there %s", x)
        warnings.warn("anywhere", stacklevel=1)
        return x + 1

    for ignored in ({print, LOG.warning, warnings.warn}, {print, logging.Logger.warning, warnings.warn}):
        with FIELDS.patch({name: ignored}):
            f = compiled(program, fullgraph=True)
            assert f(ones(2)).tolist() == [2, 2] and not f.breaks
    assert not capsys.readouterr().out and not caplog.records
    other = logging.getLogger("tests.other")
    with FIELDS.patch({name: {LOG.warning}}):
        assert breaks_of(lambda x: (other.warning("heard"), x + 1)[1], ones(1)) > 0
    assert [record.message for record in caplog.records] == ["heard"]


def log_level(name):
    FIELDS.log_level = logging.DEBUG
    assert any("dynamo" in log for log in logs_on())
    FIELDS.log_level = logging.WARNING


def print_graph_breaks(name):
    FIELDS.print_graph_breaks = True
    assert "graph_breaks" in logs_on()
    FIELDS.print_graph_breaks = False


EFFECTS = {
    **dict.fromkeys(
        ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"),
        recompile_limit,
    ),
    **dict.fromkeys(("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"), fail_on_limit),
    "error_on_recompile": error_on_recompile, "automatic_dynamic_shapes": automatic_dynamic_shapes,
    "assume_static_by_default": assume_static_by_default, "dynamic_shapes": dynamic_shapes,
    "suppress_errors": suppress_errors, "capture_scalar_outputs": capture_scalar_outputs,
    "capture_dynamic_output_shape_ops": capture_dynamic_output_shape_ops, "trace_numpy": trace_numpy,
    "repro_after": repro_is_written, "repro_level": repro_level, "replay_record_enabled": replay_record_enabled,
    "disable": disable, "verbose": in_config("debug.verbose", True),
    "verify_correctness": in_config("autograd.verify_passes", True),  # test_controls_of_torch.py: a wrong pass is named
    **dict.fromkeys(("debug_dir_root", "base_dir"), in_config("debug.folder_root", "elsewhere")),
    **dict.fromkeys(("log_file_name", "log_file"), in_config("debug.log_file", "some.log")),
    "specialize_float": specialize(1.5, 2.5), "specialize_int": specialize(15, 25),
    "do_not_emit_runtime_asserts": do_not_emit_runtime_asserts,
    "allow_ignore_mark_dynamic": allow_ignore_mark_dynamic, "run_gc_after_compile": run_gc_after_compile,
    "reorderable_logging_functions": reorderable_logging_functions,
    "ignore_logging_functions": ignore_logging_functions, "ignore_logger_methods": ignore_logging_functions,
    "log_level": log_level, "print_graph_breaks": print_graph_breaks,
}  # fmt: skip


@pytest.mark.parametrize("name", HONOURED)
def test_an_honoured_field_has_its_effect(name, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check = EFFECTS[name]
    wanted = check.__code__.co_varnames[1 : check.__code__.co_argcount]
    check(name, **{fixture: request.getfixturevalue(fixture) for fixture in wanted})


def test_every_field_is_honoured_fixed_or_refused_and_only_one_of_them():
    groups = [set(HONOURED), set(torch_fields.FIXED[DYNAMO]), set(dynamo_fields.DYNAMO_KEPT)]
    assert sum(map(len, groups)) == len(set().union(*groups)) and set(EFFECTS) == groups[0]
    assert set(torch_fields.known(DYNAMO)) <= set().union(*groups)
    assert set(dynamo_fields.ALSO) <= groups[2] - dynamo_fields.UNREAD


REFUSED = sorted({*dynamo_fields.DYNAMO_KEPT} - dynamo_fields.UNREAD)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_field_says_why(name):
    before, reason = dynamo_fields.DYNAMO_KEPT[name]
    for other in (not before, "something", 7):
        if not dynamo_fields.accepts(name, other):
            with pytest.raises(NotImplementedError, match=re.escape(f"only {before!r}: {reason}")):
                setattr(FIELDS, name, other)
            with pytest.raises(NotImplementedError), FIELDS.patch({name: other}):
                pass
    assert getattr(FIELDS, name) == before
    for also in (*dynamo_fields.ALSO.get(name, ()), before):
        setattr(FIELDS, name, also)
        assert getattr(FIELDS, name) == also


def test_a_refused_set_is_not_added_to():
    with pytest.raises(NotImplementedError, match="__torch_function__ is followed"):
        FIELDS.nontraceable_tensor_subclasses.add(int)
    assert FIELDS.nontraceable_tensor_subclasses == set()
    FIELDS.traceable_tensor_subclasses.add(int)  # torch does not read it either
    FIELDS.traceable_tensor_subclasses.discard(int)


def test_the_sets_of_logging_functions_can_be_patched_and_changed_in_place(capsys):
    with mock.patch.object(FIELDS, "reorderable_logging_functions", {print}):
        assert breaks_of(speak, ones(1), "once") == 0
    assert FIELDS.reorderable_logging_functions == set() and breaks_of(speak, ones(1), "twice") > 0
    FIELDS.reorderable_logging_functions.add(print)
    assert breaks_of(speak, ones(1), "thrice") == 0
    FIELDS.reorderable_logging_functions.clear()
    assert capsys.readouterr().out == "once\ntwice\nthrice\n"


def test_every_field_has_a_row_of_the_page():
    path = Path(__file__).parent.parent.parent / "site_docs" / "dynamo_config_page.py"
    spec = importlib.util.spec_from_file_location("dynamo_config_page", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    page = made.dynamo_config_page()
    rows = [line.split(" | ")[0].strip("| `") for line in page.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(torch_fields.known(DYNAMO))


def test_the_table_is_torchs():
    """Every public field of the installed torch, with its default."""
    theirs = pytest.importorskip("torch._dynamo.config")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not hasattr(theirs, "ignore_logging_functions"):
            pytest.skip("the table is torch 2.13's")
        names = {name for name in theirs._config if name[0] != "_" and name != "TYPE_CHECKING"}
        assert names <= set(torch_fields.known(DYNAMO)) | set(LOGS)
        for name in REFUSED:
            if name in names and name != "allowed_functions_module_string_ignorelist":
                assert dynamo_fields.DYNAMO_KEPT[name][0] == getattr(theirs, name), name
