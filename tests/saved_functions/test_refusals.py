"""What a saved function refuses: a call that differs, what a file cannot hold, a file that is damaged or from elsewhere.

Input: small functions, compiled without optimization, saved and loaded in this process. Each error says what was seen,
what was expected and what to do.
"""

import json
import sys
import threading
import types
import zipfile

import pytest

import cutaway
from cutaway.compiler import load_compiled_function, mark_dynamic
from cutaway.torch_api import modules
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported

QUICK = {"runtime.cxx_flags": "-O0 -march=native -fopenmp -ffp-contract=off"}
SCALE = 2.5


def scaled(x, times=2):
    return (x * SCALE).sum(1) * times


def helper(x):
    return x + 1


def helped(x):
    return helper(x) * 2


def ahead(function, *args, **kwargs):
    return cutaway.compile(function, fullgraph=True, options=QUICK).aot_compile((args, kwargs))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """`scaled`, saved."""
    path = tmp_path_factory.mktemp("saved") / "scaled"
    ahead(scaled, cutaway.ones(2, 3)).save_compiled_function(path)
    return path


# ---- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((cutaway.ones(2, 4),), {}, r"x\.shape\[1\]: 3 -> 4"),
        ((cutaway.ones(2, 3, dtype=cutaway.float64),), {}, r"x\.dtype: .*float32 -> .*float64"),
        ((cutaway.ones(2, 3, requires_grad=True),), {}, r"x\.requires_grad: False -> True"),
        ((cutaway.ones(2, 3),), {"times": "2"}, r"type\(times\): int -> str|times: .*str"),
        ((3,), {}, r"type\(x\): Tensor -> int"),
    ],
)
def test_a_call_that_differs_is_told(saved, args, kwargs, said):
    loaded = load_compiled_function(saved, trust=True)
    with pytest.raises(RuntimeError, match=said) as error:
        loaded(*args, **kwargs)
    assert "scaled was compiled ahead of time for another call" in str(error.value)
    assert "aot_compile with arguments like these" in str(error.value)
    assert not loaded.guard_check(*args, **kwargs)


def test_arguments_that_do_not_fit_are_pythons_error(saved):
    with pytest.raises(TypeError, match=r"scaled\(\) got an unexpected keyword argument 'time'"):
        load_compiled_function(saved, trust=True)(cutaway.ones(2, 3), time=1)


def test_another_mode_of_the_thread_is_told(saved):
    loaded = load_compiled_function(saved, trust=True)
    with cutaway.no_grad(), pytest.raises(RuntimeError, match="grad"):
        loaded(cutaway.ones(2, 3))
    with pytest.raises(RuntimeError, match="inside of vmap"):
        cutaway.func.vmap(loaded)(cutaway.ones(5, 2, 3))


def test_a_changed_global_is_told_and_f_globals_are_read(saved):
    names = {**globals(), "SCALE": 2.5}
    loaded = load_compiled_function(saved, f_globals=names, trust=True)
    x = cutaway.ones(2, 3)
    assert loaded(x).tolist() == scaled(x).tolist()
    names["SCALE"] = 3.0
    with pytest.raises(RuntimeError, match=r"SCALE: 2\.5 -> 3\.0"):
        loaded(x)
    loaded.disable_guard_check()
    assert loaded(x).tolist() == scaled(x).tolist()


# ---- aot_compile -------------------------------------------------------------------------------------------------


def test_what_aot_compile_takes():
    x = cutaway.ones(3)
    with pytest.raises(RuntimeError, match="without fullgraph=True helped may have breaks"):
        cutaway.compile(helped).aot_compile(((x,), {}))
    with pytest.raises(TypeError, match=r"for f\(x\) that is \(\(x,\), \{\}\)"):
        cutaway.compile(helped, fullgraph=True).aot_compile((x,))
    model = cutaway.nn.Linear(3, 3)
    with pytest.raises(RuntimeError, match="argument 0 of .* is a module"):
        ahead(lambda m, x: m(x), model, x)
    with pytest.raises(RuntimeError, match="aot_compile compiles functions, and this is a module"):
        cutaway.compile(model, fullgraph=True).aot_compile(((x,), {}))
    with pytest.raises(Unsupported):
        ahead(lambda x: print(x), x)


def test_it_compiles_without_a_call_and_leaves_the_function_as_it_is():
    compiled = cutaway.compile(helped, fullgraph=True, options=QUICK)
    x = cutaway.ones(3)
    found = compiled.aot_compile(((x,), {}))
    assert not compiled.entries and found(x).tolist() == [4.0] * 3
    assert found.__name__ == "helped" and "compiled ahead of time" in repr(found)


# ---- what a file cannot hold -------------------------------------------------------------------------------------


def of_a_local_object():
    class Local:
        times = 2

    here = Local()
    return lambda x: x * here.times, "Local"


def of_an_object_of_this_process():
    lock = threading.Lock()
    return lambda x: x + 1 if lock is None else x, "lock"


def of_a_local_function():
    by = []

    def inner(x):
        return x * 2 + len(by)

    return lambda x: inner(x), "inner"


def of_a_function_of_the_tape():
    class Twice(cutaway.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    return lambda x: Twice.apply(x), "Twice"


@pytest.mark.parametrize(
    "made", [of_a_local_object, of_an_object_of_this_process, of_a_local_function, of_a_function_of_the_tape]
)
def test_what_a_file_cannot_hold_is_named(made, tmp_path):
    function, named = made()
    path = tmp_path / "function"
    path.write_bytes(b"what was there before")
    compiled = cutaway.compile(function, fullgraph=True, backend="eager").aot_compile(
        ((cutaway.ones(3),), {})
    )
    with pytest.raises(RuntimeError, match=f"cannot be saved: a file cannot hold .*{named}"):
        compiled.save_compiled_function(path)
    assert path.read_bytes() == b"what was there before" and [*tmp_path.iterdir()] == [path]


def test_a_backend_of_ones_own_is_refused(tmp_path):
    compiled = cutaway.compile(helped, fullgraph=True, backend=lambda graph, inputs: graph.forward)
    with pytest.raises(RuntimeError, match="a file holds what the backends .*inductor.* make"):
        compiled.aot_compile(((cutaway.ones(3),), {})).save_compiled_function(tmp_path / "function")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_backends_for_finding_errors_are_saved_too(backend, tmp_path):
    compiled = cutaway.compile(helped, fullgraph=True, backend=backend)
    compiled.aot_compile(((cutaway.ones(3),), {})).save_compiled_function(tmp_path / "function")
    assert load_compiled_function(tmp_path / "function", trust=True)(cutaway.ones(3)).tolist() == [4.0] * 3


# ---- files -------------------------------------------------------------------------------------------------------


def changed(saved, path, part, change):
    """The file with another text in one part."""
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, change(data.decode()) if name == part else data)
    return path


def header(**fields):
    return lambda text: json.dumps(json.loads(text) | fields)


def test_trust_is_asked_for(saved):
    for trust in (False, 1, "yes"):
        with pytest.raises(PermissionError, match="holds native code that will run as you; pass trust=True"):
            load_compiled_function(saved, trust=trust)


@pytest.mark.parametrize("there", [b"", b"PK", b"not a file of this kind" * 100])
def test_another_file_is_told(there, tmp_path):
    (tmp_path / "other").write_bytes(there)
    with pytest.raises(ValueError, match="other is not a saved function, or it is damaged"):
        load_compiled_function(tmp_path / "other", trust=True)
    with pytest.raises(FileNotFoundError):
        load_compiled_function(tmp_path / "none", trust=True)


def test_a_truncated_or_changed_file_is_told(saved, tmp_path):
    """Cut at 20 places, one byte changed at 60: ValueError, or where nobody reads it the function as it was."""
    data, x = saved.read_bytes(), cutaway.ones(2, 3)
    path = tmp_path / "damaged"
    for k in range(20):
        path.write_bytes(data[: len(data) * k // 20])
        with pytest.raises(ValueError, match="it is damaged"):
            load_compiled_function(path, trust=True)
    refused = 0
    for k in range(60):
        place = (len(data) - 1) * k // 59
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            assert load_compiled_function(path, trust=True)(x).tolist() == scaled(x).tolist()
        except ValueError as error:
            assert "it is damaged" in str(error)
            refused += 1
    assert refused > 45


def test_a_part_that_was_replaced_is_told(saved, tmp_path):
    path = changed(saved, tmp_path / "other", "settings.json", lambda text: text + " ")
    with pytest.raises(ValueError, match=r"settings\.json is not what was saved"):
        load_compiled_function(path, trust=True)


@pytest.mark.parametrize("field", ["python", "cutaway", "format"])
def test_another_version_is_told(field, saved, tmp_path):
    path = changed(saved, tmp_path / "other", "header.json", header(**{field: "1.5"}))
    with pytest.raises(
        RuntimeError, match=f"was saved with {field} 1.5, but this is {field} .*save the function again"
    ):
        load_compiled_function(path, trust=True)


def test_for_another_machine_the_kernels_are_built_anew_or_it_is_told(saved, tmp_path):
    machine = {"system": sys.platform, "cpu": "another", "numpy": "1.0"}
    path = changed(saved, tmp_path / "other", "header.json", header(machine=machine))
    x = cutaway.ones(2, 3)
    with config.patch({"runtime.cache": False}):
        mark = events.EVENT_LOG.mark()
        assert load_compiled_function(path, trust=True)(x).tolist() == scaled(x).tolist()
        assert any(
            event.kind == "cache" and "another machine" in event.details["reason"]
            for event in events.EVENT_LOG.since(mark)
        )
    with config.patch({"runtime.cxx": str(tmp_path / "none")}), pytest.raises(RuntimeError) as error:
        load_compiled_function(path, trust=True)
    assert "built on another machine (cpu differs, numpy differs)" in str(error.value)
    assert "no C++ compiler" in str(error.value)


def test_an_open_file_is_read(saved):
    x = cutaway.ones(2, 3)
    with saved.open("rb") as file:
        assert load_compiled_function(file, trust=True)(x).tolist() == scaled(x).tolist()


def test_a_loaded_function_is_saved_as_the_same_file(saved, tmp_path):
    load_compiled_function(saved, trust=True).save_compiled_function(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_compiled_code_may_call_it(saved):
    loaded = load_compiled_function(saved, trust=True)
    compiled = cutaway.compile(lambda x: loaded(x) + 1, backend="eager")
    assert compiled(cutaway.ones(2, 3)).tolist() == (scaled(cutaway.ones(2, 3)) + 1).tolist()


# ---- what is missing where the file is loaded --------------------------------------------------------------------

SOURCE = """
import cutaway
WEIGHT = cutaway.ones(3)
TIMES = 2
def helper(x):
    return x + 1
def plain(x):
    return cutaway.relu(x) * TIMES
def weighted(x):
    return helper(x) * WEIGHT
"""


@pytest.fixture
def module():
    """A module that a program can import, until it goes."""
    made = types.ModuleType("a_module_that_goes")
    sys.modules[made.__name__] = made
    exec(SOURCE, vars(made))
    yield made
    sys.modules.pop(made.__name__, None)


def test_without_its_module_a_function_needs_its_globals(module, tmp_path):
    x = cutaway.ones(3)
    for name in ("plain", "weighted"):
        ahead(getattr(module, name), x).save_compiled_function(tmp_path / name)
    names = vars(sys.modules.pop(module.__name__))
    # a number and a module are in the file
    assert load_compiled_function(tmp_path / "plain", trust=True)(x).tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="reads the globals WEIGHT.* pass f_globals"):
        load_compiled_function(tmp_path / "weighted", trust=True)
    with pytest.raises(RuntimeError, match="reads the globals WEIGHT, which f_globals does not have"):
        load_compiled_function(tmp_path / "weighted", f_globals={"helper": helper}, trust=True)
    loaded = load_compiled_function(tmp_path / "weighted", f_globals=names, trust=True)
    assert loaded(x).tolist() == [2.0] * 3


def test_other_code_of_a_function_that_was_followed_is_told(module, tmp_path):
    ahead(module.weighted, cutaway.ones(3)).save_compiled_function(tmp_path / "weighted")
    exec("def helper(x):\n    return x + 2\n", vars(module))
    with pytest.raises(
        RuntimeError, match="a_module_that_goes.helper has other code than when the function was saved"
    ):
        load_compiled_function(tmp_path / "weighted", trust=True)


def test_a_missing_name_is_told(module, tmp_path):
    ahead(module.weighted, cutaway.ones(3)).save_compiled_function(tmp_path / "weighted")
    del module.helper
    with pytest.raises(
        RuntimeError, match="reads the globals helper, which its module a_module_that_goes does"
    ):
        load_compiled_function(tmp_path / "weighted", trust=True)


# ---- under torch's name ------------------------------------------------------------------------------------------


def test_torchs_signature_is_trusted_by_a_setting(saved):
    load = modules()["torch.compiler"].load_compiled_function
    x = cutaway.ones(2, 3)
    with saved.open("rb") as file:
        with pytest.raises(PermissionError) as error:
            load(file)
        assert "CUTAWAY_RUNTIME_TRUST_SAVED_FUNCTIONS=1" in error.value.__notes__[0]
        with config.patch({"runtime.trust_saved_functions": True}):
            file.seek(0)
            assert load(file)(x).tolist() == scaled(x).tolist()
            with pytest.raises(RuntimeError, match="expects none"):
                load(file, external_data={"model": None})


def test_open_sizes_keep_their_bounds(tmp_path):
    """A size that the function compares is open between its bounds only."""

    def function(x):
        return x.sum(0) if x.shape[0] > 4 else x * 2

    x = cutaway.ones(6, 3)
    mark_dynamic(x, 0)
    ahead(function, x).save_compiled_function(tmp_path / "function")
    loaded = load_compiled_function(tmp_path / "function", trust=True)
    assert loaded(cutaway.ones(9, 3)).tolist() == [9.0] * 3
    with pytest.raises(RuntimeError, match="another call"):
        loaded(cutaway.ones(3, 3))
