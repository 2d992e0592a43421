"""The files that fill the tables which calls, methods and opcodes are looked up in: one that is added is named here.

Input: nothing. capture.py imports this once, before the first capture.
"""

from stage1_capture.builtins import (  # noqa: F401
    container_methods,
    copy,
    getters,
    library,
    random,
    type_checks,
    types,
)
from stage1_capture.builtins.numpy import calls, methods, objects  # noqa: F401
from stage1_capture.builtins.torch import (  # noqa: F401
    data_sized,
    modules,
    optimizers,
    tensors,
    updates,
)
from stage1_capture.frame.opcodes import classes, exceptions, match  # noqa: F401
from stage1_capture.higher_order import (  # noqa: F401
    autograd_function,
    backward,
    checkpoint,
    control_flow,
    hooks,
    nonstrict,
    regions,
    transforms,
    triton,
)
from stage1_capture.variables import (  # noqa: F401
    class_,
    construct,
    controls,
    fraction,
    loaded_modules,
    ndarray,
)
