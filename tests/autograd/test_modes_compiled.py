"""Grad and inference modes in and around compiled code: what tensors they make, on every backend.

Input: one-line functions; the settings of torch that only allow something are read back as they were set.
"""

import pytest

import cutaway
from cutaway import compiler
from cutaway.torch_api import torch

BACKENDS = ["eager", "aot_eager", "inductor"]


def affine(x):
    return x * 2 + 1


@cutaway.inference_mode()
def decorated(x):
    return affine(x)


@cutaway.inference_mode
def without_parentheses(x):
    return affine(x)


@cutaway.no_grad
def not_recorded(x):
    return affine(x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [decorated, without_parentheses])
def test_what_is_made_in_inference_mode_inside_compiled_code(backend, function):
    x = cutaway.ones(3).requires_grad_()
    out = cutaway.compile(function, backend=backend, fullgraph=True)(x)
    assert out.is_inference() and not out.requires_grad and out.tolist() == function(x).tolist()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        out * x
    assert not cutaway.is_inference_mode_enabled() and cutaway.is_grad_enabled()


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode_around_compiled_code_is_a_guard(backend):
    compiled = cutaway.compile(affine, backend=backend, fullgraph=True)
    x = cutaway.ones(3).requires_grad_()
    for _ in range(2):
        with torch.inference_mode():
            assert compiled(x).is_inference()
        with torch.no_grad():
            assert not compiled(x).is_inference() and not compiled(x).requires_grad
        assert compiled(x).requires_grad
    assert len(compiled.entries) == 3


def with_enable_grad(x, made):
    with cutaway.enable_grad():
        return (x * made).tanh() + 1


def with_set_grad_enabled(x, made):
    cutaway.set_grad_enabled(True)
    out = x.exp() * made
    cutaway.set_grad_enabled(False)
    return out


def inside_of_it(x, made):
    with cutaway.inference_mode(), cutaway.enable_grad():
        return x * made


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("function", [with_enable_grad, with_set_grad_enabled, inside_of_it])
def test_in_inference_mode_nothing_is_recorded(backend, function):
    """Also where the program asks for gradients: eager code raised for the tensor that was made here."""
    run = cutaway.compile(function, backend=backend, fullgraph=True) if backend else function
    x = cutaway.ones(3).requires_grad_()
    with torch.inference_mode():
        out = run(x, cutaway.ones(3))
        assert not cutaway.is_grad_enabled()
    assert out.is_inference() and not out.requires_grad and cutaway.is_grad_enabled()


def test_modes_without_parentheses():
    x = cutaway.ones(3).requires_grad_()
    assert not not_recorded(x).requires_grad
    assert not cutaway.compile(not_recorded, backend="eager", fullgraph=True)(x).requires_grad


def test_settings_are_read_back_as_they_were_set():
    before = torch.get_num_threads()
    try:
        torch.set_float32_matmul_precision("high")
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(3)
        assert torch.get_float32_matmul_precision() == "high" and torch.get_num_threads() == 3
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)

    def f(x):
        torch.set_float32_matmul_precision("medium")
        return x @ x

    counter = compiler.CompileCounter()
    cutaway.compile(f, backend=counter, fullgraph=True)(cutaway.ones(2, 2))
    assert counter.frame_count == 1 and torch.get_float32_matmul_precision() == "medium"
    torch.set_float32_matmul_precision("highest")
