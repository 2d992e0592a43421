"""torch.autograd's names, gathered from the folder autograd/ and from state.py."""

from __future__ import annotations

from types import SimpleNamespace

from stage0_eager.autograd import functional
from stage0_eager.autograd.anomaly import detect_anomaly, set_detect_anomaly
from stage0_eager.autograd.backward_pass import backward, grad
from stage0_eager.autograd.function import Function, FunctionCtx, once_differentiable
from stage0_eager.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from stage0_eager.autograd.hooks import save_on_cpu, saved_tensors_hooks
from stage0_eager.autograd.tape import TapeNode
from stage0_eager.state import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)

function = SimpleNamespace(
    Function=Function, FunctionCtx=FunctionCtx, once_differentiable=once_differentiable
)
graph = SimpleNamespace(saved_tensors_hooks=saved_tensors_hooks, save_on_cpu=save_on_cpu, Node=TapeNode)

__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "backward", "detect_anomaly", "enable_grad", "function", "functional",
    "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
