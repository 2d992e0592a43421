"""One program for each row of the catalogue of messages: it makes the message appear. The site's page and a test run them.

Input: the function called as a row of stage_contracts/messages.py. SURROUNDINGS: the variables a program is started with.
"""

import os
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from cutaway.nn import functional as F

import cutaway
from cutaway.torch_api import torch
from stage0_eager import TABLE


def double(x):
    return x * 2


def unknown_option():
    cutaway.compile(double, full_graph=True)


def unknown_field():
    cutaway.config.change(cach=True)


def unknown_mode():
    cutaway.compile(double, mode="max_autotune")


def unknown_backend():
    cutaway.compile(double, backend="inductr")


def unknown_stance():
    cutaway.compiler.set_stance("force_eagr")


def unknown_log():
    from cutaway.debug.logs import set_logs

    set_logs(graph_break=True)


def unknown_log_variable():
    from cutaway.debug.logs import logs_of_environment

    logs_of_environment("recompile, nonsense")


def unknown_variable():
    cutaway.config.environment_in_words({"CUTAWAY_RUNTIME_CACHEDIR": "/tmp"})


def malformed_variable():
    cutaway.config.environment_in_words({"CUTAWAY_CAPTURE_RECOMPILE_LIMIT": "eight"})


def no_attribute():
    return torch.matmull


def subject_missing():
    return torch.sparse


def unknown_field_of():
    replace(cutaway.DEFAULT_PIPELINE, fusee=None)


def wrong_choice():
    cutaway.config.change(repro_after="ato")


def module_missing():
    with cutaway.torch_api.as_torch():
        import torch.sparse  # noqa: F401


def name_missing():
    with cutaway.torch_api.as_torch():
        from torch import sparse  # noqa: F401


def no_artifacts():
    return cutaway.compile(double).artifacts[-1]


def pipeline_expected():
    cutaway.compile(double, pipeline={"fuse": None})


def seam_not_callable():
    cutaway.compile(double, pipeline=replace(cutaway.DEFAULT_PIPELINE, fuse=None))


def seam_signature():
    cutaway.compile(double, pipeline=replace(cutaway.DEFAULT_PIPELINE, emit=lambda program: program))


def seam_result():
    pipeline = replace(cutaway.DEFAULT_PIPELINE, decompose=lambda graph: None)
    cutaway.compile(double, pipeline=pipeline)(cutaway.ones(3))


@contextmanager
def a_faulty_pass():
    """A pass of the compiler that fails, as a bug in the compiler would."""
    from cutaway import inductor

    def fails(*_):
        raise KeyError("a fault")

    kept, inductor.lower_and_build = inductor.lower_and_build, fails
    try:
        yield
    finally:
        inductor.lower_and_build = kept


def internal_error():
    with a_faulty_pass():
        return cutaway.compile(double)(cutaway.ones(3))


def internal_error_raised():
    with a_faulty_pass():
        cutaway.compile(double, fullgraph=True)(cutaway.ones(3))


def _compiled_wrongly(times):
    """A sine becomes the sine of a sine in stage 3, in so many compiles."""
    pipeline, compiles = cutaway.DEFAULT_PIPELINE, iter(range(times))

    def lower(graph):
        wrong = graph.copy()
        sine = wrong.calls[0]
        if next(compiles, None) is not None:
            with wrong.inserting_before(sine):
                wrong.set_args(sine, [wrong.call_function(sine.target, sine.args, val=sine.val)])
        return pipeline.lower(wrong)

    with cutaway.config.patch({"debug.verify": True, "runtime.cache": False}):
        cutaway.compile(lambda x: x.sin().neg(), pipeline=replace(pipeline, lower=lower))(cutaway.ones(3))


def verify_operator():
    _compiled_wrongly(times=99)


def verify_pass():
    """Stage 2 makes a cosine of a sine."""
    pipeline = cutaway.DEFAULT_PIPELINE

    def decompose(graph):
        wrong = pipeline.decompose(graph).copy()
        sine = wrong.calls[0]
        with wrong.inserting_before(sine):
            wrong.replace_all_uses_with(sine, wrong.call_function(TABLE["core.cos"], sine.args, **sine.meta))
        return wrong

    with cutaway.config.patch({"debug.verify": True}):
        cutaway.compile(lambda x: x.sin(), pipeline=replace(pipeline, decompose=decompose))(cutaway.ones(3))


def verify_crash():
    """A kernel of a sine ends the process."""
    pipeline = cutaway.DEFAULT_PIPELINE

    def launch(program, kernels, constants):
        sines = any(i.op == "sin" for k in program.kernels.values() for n in k.nests for i in n.body)
        run = pipeline.launch(program, kernels, constants)
        return (lambda *_: os.kill(os.getpid(), signal.SIGSEGV)) if sines else run

    settings = {"debug.verify": True, "debug.verify_crashes": True, "runtime.cache": False}
    with cutaway.config.patch(settings):
        compiled = cutaway.compile(lambda x: x.sin().neg(), pipeline=replace(pipeline, launch=launch))
        compiled(cutaway.ones(3))


def verify_guard():
    """An entry is taken for a call with another dim."""
    from cutaway import compile_frame

    made = compile_frame.guard_function
    with (
        cutaway.config.patch({"debug.verify": True}),
        patch.object(compile_frame, "guard_function", lambda guards, *rest: made((), *rest)),
    ):
        compiled = cutaway.compile(lambda x, dim: x.softmax(dim))
        compiled(cutaway.ones(3, 4), 0)
        compiled(cutaway.ones(3, 4), 1)


def verify_whole():
    _compiled_wrongly(times=1)


def repro_saved():
    with a_faulty_pass(), cutaway.config.patch(repro_after="dynamo"):
        cutaway.compile(double)(cutaway.ones(3))


def repro_not_saved():
    """A file stands where the folder would."""
    Path("cutaway_repro").write_text("", encoding="utf-8")
    with a_faulty_pass(), cutaway.config.patch(repro_after="aot"):
        cutaway.compile(double)(cutaway.ones(3))


def record_saved():
    with a_faulty_pass(), cutaway.config.patch(replay_record_enabled=True, suppress_errors=False):
        cutaway.compile(double)(cutaway.ones(3))


def record_not_saved():
    """A file stands where the folder would."""
    Path("cutaway_repro").write_text("", encoding="utf-8")
    with a_faulty_pass(), cutaway.config.patch(replay_record_enabled=True, suppress_errors=False):
        cutaway.compile(double)(cutaway.ones(3))


def graph_break():
    def says_so(x):
        print("a side effect")
        return x * 2

    cutaway.compile(says_so, fullgraph=True)(cutaway.ones(3))


def class_out_of_range():
    loss = cutaway.compile(F.cross_entropy)
    loss(cutaway.zeros(2, 3), cutaway.tensor([0, 7]))


def target_of_classes():
    F.cross_entropy(cutaway.zeros(2, 3), cutaway.zeros(2, 4))


def target_size():
    F.binary_cross_entropy_with_logits(cutaway.zeros(2, 3), cutaway.zeros(2, 1))


def target_broadcast():
    F.mse_loss(cutaway.zeros(2, 3), cutaway.zeros(2, 1))


def variance_negative():
    loss = cutaway.compile(F.gaussian_nll_loss)
    loss(cutaway.zeros(2), cutaway.zeros(2), cutaway.tensor([1.0, -1.0]))


def probability_expected():
    F.binary_cross_entropy(cutaway.tensor([0.5, 1.5]), cutaway.tensor([0.0, 1.0]))


def backend_raised():
    def broken(graph, inputs):
        raise KeyError("a fault of the backend")

    cutaway.compile(double, backend=broken)(cutaway.ones(3))


def backend_not_callable():
    cutaway.compile(double, backend=lambda graph, inputs: None)(cutaway.ones(3))


def backend_result():
    cutaway.compile(double, backend=lambda graph, inputs: lambda *tensors: tensors[0])(cutaway.ones(3))
