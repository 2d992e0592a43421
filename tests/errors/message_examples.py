"""One program for each row of the catalogue of messages: it makes the message appear. The site's page and a test run them.

Input: the function called as a row of stage_contracts/messages.py. SURROUNDINGS: the variables a program is started with.
"""

from dataclasses import replace

import cutaway
from cutaway.torch_api import torch


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
    return torch.hub


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


def internal_error():
    """A pass of the compiler that fails, as a fault of ours would."""
    from cutaway import inductor

    def fails(*_):
        raise KeyError("a fault")

    kept, inductor.lower_and_build = inductor.lower_and_build, fails
    try:
        return cutaway.compile(double)(cutaway.ones(3))
    finally:
        inductor.lower_and_build = kept


def backend_raised():
    def broken(graph, inputs):
        raise KeyError("a fault of the backend")

    cutaway.compile(double, backend=broken)(cutaway.ones(3))
