"""Rows that follow from others: second names, and in-place forms.

Input: the alias table of stage 0, and every row of the operator table that ends in an underscore.
"""

from dataclasses import replace

from stage0_eager.table.registry import TABLE
from tests.oracle.spec import ROWS, internal, same_as

# Where a sample of the other name does not do: torch's true_divide takes no rounding_mode, its unsafe_split a size, not
# a list of them.
_OWN = {
    "true_divide": {"samples": ROWS["div"].samples[2:3], "invalid": ROWS["div"].invalid[:1]},
    "unsafe_split": {"samples": ROWS["split"].samples[:1], "invalid": ()},
}

for _name, _op in TABLE.items():  # a row whose body is another's
    _twins = [
        r
        for r in ROWS
        if (o := TABLE.get(f"cutaway.{r}")) is not None and o.body is _op.body and o is not _op
    ]
    if _op.body is not None and _twins and _op.name not in ROWS:
        same_as(_op.name, _twins[0], **_OWN.get(_op.name, {}))


def fits(sample):
    """Whether the result may be written over the first operand: its shape is no other."""
    from tests.oracle.spec import Operand

    first, *others = sample.args
    shapes = [o.shape for o in (*others, *sample.kwargs.values()) if isinstance(o, Operand)]
    wide = all(len(s) <= len(first.shape) for s in shapes) and all(
        o in (1, f) for s in shapes for o, f in zip(reversed(s), reversed(first.shape))
    )
    return wide


_EXCEPTIONS = {
    f"logical_{word}_": {"torch's derivative": "torch lets the gradient of the overwritten values through"}
    for word in ("not", "and", "or", "xor")
}

for _name in [n.removeprefix("cutaway.") for n in TABLE if n.startswith("cutaway.") and n.endswith("_")]:
    _base = ROWS.get(_name.removesuffix("_"))
    if _name not in ROWS and _base is not None:
        ROWS[_name] = replace(
            _base, name=_name, samples=tuple(s for s in _base.samples if not _base.elementwise or fits(s)), in_place_of=_base.name,
            torch=None, may_refuse=("can't be cast to the desired output type", "doesn't match the broadcast shape"), alias_of=None, invalid=(), exceptions={**_base.exceptions, **_EXCEPTIONS.get(_name, {})},
            dtypes=("float64",) if _name == "float_power_" else _base.dtypes,
        )  # fmt: skip

# What capture makes of autograd.grad.
internal(autograd_grad="autograd.grad")
