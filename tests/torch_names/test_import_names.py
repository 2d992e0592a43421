"""What libraries touch when they are imported: decorators that change nothing, stubs that raise on use, trees, hub, Library.

Input: torch's module paths under as_torch().
"""

import pytest

import cutaway
from cutaway.torch_api import as_torch, modules
from stage0_eager.autograd.gradcheck import gradcheck

torch = modules()["torch"]


def test_a_library_written_for_torch_is_imported():
    with as_torch():
        import torch._C
        from torch import jit, types
        from torch._C import DisableTorchFunctionSubclass, DispatchKey, DispatchKeySet
        from torch.ao.quantization import QuantStub  # noqa: F401
        from torch.jit.annotations import Final
        from torch.onnx import is_in_onnx_export
        from torch.overrides import handle_torch_function, has_torch_function

        class Layer(torch.nn.Module):
            width: Final[int]

            @jit.unused
            def training_only(self, x: types.Number) -> float:
                return float(x)

            @torch.jit.ignore(drop=True)
            def other(self):
                return 2

            @jit._overload_method
            def forward(self, x):
                return x * jit.annotate(float, 2.0)

        @jit.script_if_tracing
        def double(x):
            return x * 2

    assert jit.script(Layer()).other() == 2 and double(3) == 6 and not is_in_onnx_export()
    assert DispatchKeySet(DispatchKey.CPU).has(DispatchKey.CPU) and not has_torch_function((1,))
    with (
        DisableTorchFunctionSubclass(),
        pytest.raises(TypeError, match="no implementation found for .*double"),
    ):
        handle_torch_function(double, (), 1)


@pytest.mark.parametrize("path", ["onnx.export", "ao.quantization.quantize_dynamic", "jit.trace"])
def test_a_stub_raises_when_it_is_used(path):
    found = torch
    for part in path.split("."):
        found = getattr(found, part)
    with pytest.raises(NotImplementedError, match=f"torch.{path}"):
        found("anything")


def test_a_library_defines_operators_that_compile_and_differentiate():
    library = torch.library.Library("cutaway_names", "DEF")
    library.define("scaled(Tensor x, float by) -> Tensor")
    library.impl("scaled", lambda x, by: x * by, "CPU")
    torch.library.impl  # noqa: B018  (the functional form stands beside it)
    torch.library.register_fake("cutaway_names::scaled", lambda x, by: x.new_empty(x.shape))

    def setup(ctx, inputs, output):
        ctx.by = inputs[1]

    torch.library.register_autograd(
        "cutaway_names::scaled", lambda ctx, g: (g * ctx.by, None), setup_context=setup
    )
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    op = torch.ops.cutaway_names.scaled.default
    assert gradcheck(lambda x: op(x, 2.5), (x,))
    compiled = cutaway.compile(lambda x: op(x, 2.5) + 1, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(x), x * 2.5 + 1)
    with pytest.raises(NotImplementedError, match="dispatch key 'XLA'"):
        library.impl("scaled", lambda x, by: x, "XLA")
    with pytest.raises(NotImplementedError, match="aten"):
        torch.library.Library("aten", "IMPL")


def test_return_types_are_those_of_the_functions():
    x = torch.rand(2, 3)
    assert isinstance(x.max(0), torch.return_types.max) and isinstance(x.sort(), torch.return_types.sort)
    assert isinstance(torch.linalg.lu(x), torch.return_types.linalg_lu)


def test_fused_layers_give_what_the_two_gave():
    conv, bn = torch.nn.Conv2d(2, 3, 2), torch.nn.BatchNorm2d(3)
    x = torch.rand(2, 2, 4, 4)
    bn(conv(x))  # moves the running statistics
    conv.eval(), bn.eval()
    fused = torch.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)
    assert torch.allclose(fused(x), bn(conv(x)), atol=1e-6) and fused is not conv
