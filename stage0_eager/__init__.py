"""Stage 0: the language. Tensor, operators, tape, modules, optimizers, random numbers, run op by op on arrays."""

from stage0_eager import derivatives, functions, nn, optim, storage  # noqa: F401  (they attach rules and methods)
from stage0_eager.autograd import tensor_methods  # noqa: F401  (attaches Tensor.backward and hooks)
from stage0_eager.kernels.eager import eager_kernel
from stage0_eager.namespaces import amp
from stage0_eager.nn import backward_hooks  # noqa: F401  (attaches Module.register_full_backward_hook)
from stage0_eager.state import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from stage0_eager.table import numpy_numbers, overriding  # noqa: F401  (they answer calls that failed)
from stage0_eager.table.core import core
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor

__all__ = [
    "TABLE", "Operator", "Tensor", "amp", "core", "eager_kernel", "enable_grad", "functions", "is_grad_enabled",
    "nn", "no_grad", "optim", "set_grad_enabled",
]  # fmt: skip
