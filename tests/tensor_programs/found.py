"""What the random programs found to differ from eager, made smaller: a name says of each what is particular.

Input: none, data alone; test_tensor_programs.py holds all of them to eager. Which of them differ on the tree before is in
tests/FAULTS_FOUND.md.
"""

from tests.tensor_programs.grammar import TensorProgram

NON_LEAF = ("leaf = fresh(3, 4).requires_grad_()", "x = leaf * 1")
GAPS = ("whole = fresh(2, 3)", "x = whole[..., 1:]")
LEAF_AND_VIEW = ("whole = fresh(3, 4)", "x = whole[..., ::2].requires_grad_()")


def found(inputs, *body, results=("x",), used=(), after=(), arguments=("x",), other=()):
    return TensorProgram(tuple(inputs), arguments, body, tuple(results), after, used, 1, other)


FOUND = {
    "a view of a leaf is written": found(LEAF_AND_VIEW, "v = x.mean()", "x[1:] -= x[:-1]"),
    "a leaf is written after something else": found(
        ("x = fresh(3)", "z = fresh(3).requires_grad_()"), "x.add_(1)", "z.mul_(2)", arguments=("x", "z")
    ),
    "a view made under no_grad is written": found(
        NON_LEAF,
        "with torch.no_grad():\n    v = x[0]",
        "w = x.expand(3, 4)",
        "v.sub_(2)",
        results=("w.sin()",),
        used=(0,),
    ),
    "a view of one made under no_grad is written": found(
        NON_LEAF,
        "with torch.no_grad():\n    v = x.unsqueeze(1)",
        "u = v[0]",
        "v.mul_(2)",
        results=("u.sum(-1)",),
    ),
    "a view is looked at under no_grad after its base was written": found(
        ("leaf = fresh(2, 2, 2).requires_grad_()", "whole = leaf * 1", "x = whole[1:]"),
        "v = x.unflatten(1, (1, -1))",
        "v *= 1.5",
        "with torch.no_grad():\n    x.relu_()",
        results=("v * 1",),
        used=(0,),
    ),
    "a view comes to require grad by a write to its base": found(
        ("whole = fresh(3, 2)", "x = whole[..., ::2]", "y = fresh(3, 1).requires_grad_()"),
        "x[...] = y * x",
        "v = x.repeat_interleave(2, 0)[0]",
        "x[...] = v * x",
        results=("v.expand_as(y) * 1",),
        used=(0,),
        arguments=("x", "y"),
    ),
    "the gradient of something inside, on a tape from outside": found(
        NON_LEAF,
        "v = x.unsqueeze(1)",
        "g = torch.autograd.grad(v.pow(3).sum(), v, create_graph=True)[0]",
        results=("g",),
        used=(0,),
    ),
    "a gradient, and a write beside it": found(
        ("x = fresh(3).requires_grad_()",),
        "g = torch.autograd.grad((x * x).sum(), x)[0]",
        "with torch.no_grad():\n    v = g.ravel()\n    u = x.expand(3)",
        "v.index_add_(0, torch.tensor([0]), v.narrow(-1, 0, 1))",
        results=("u * 1", "v"),
    ),
    "a gradient after a write to a view of the input": found(
        NON_LEAF,
        "v = x.view(-1)[::2].mul_(2)",
        "g = torch.autograd.grad(x.sin().sum(), x, create_graph=True)[0]",
        results=("g",),
        used=(0,),
    ),
    "a gradient where nothing is on the tape": found(
        ("x = fresh(3).requires_grad_()",), "g = torch.autograd.grad(x.sin().sum(), x)[0]", results=("g",)
    ),
    "data has a version counter of its own": found(
        ("x = fresh(4).requires_grad_()",),
        "v = x * 2",
        "v.data.mul_(2)",
        "w = v[None]",
        results=("v", "w", "v.sin()"),
    ),
    "two names of one place, one is handed out": found(
        NON_LEAF, "v = x.sum()[None]", "w = v.data.mul_(0.5)", "u = v[...]", results=("w.expand(1)",)
    ),
    "a part without overlaps of windows that overlap": found(
        ("x = fresh(3, 4)",), "v = x.unfold(1, 2, 1)", "v.diagonal().mul_(-1)"
    ),
    "another shape, in place, under no_grad": found(
        NON_LEAF, "with torch.no_grad():\n    x.unsqueeze_(0)", results=("x", "x * 2"), used=(0, 1)
    ),
    "a copy of memory with gaps that was written": found(
        GAPS, "x.mul_(0)", "x.contiguous().add_(1.5)", "x.reshape(-1)[0] = 1.5", results=("x * 1",)
    ),
    "two copies of memory with gaps that was written": found(
        GAPS, "x.mul_(2)", results=("x.reshape(-1)", "x.contiguous()"), after=("r[0].zero_()",)
    ),
    "a transposed copy of memory with gaps that was written": found(
        ("whole = fresh(3, 4)", "x = whole[..., 1:]"),
        "v = x.t().expand_as(x)",
        "v.index_fill_(1, torch.tensor([0]), 2)",
        "v.flatten()[1:].neg_()",
        results=("v.sum()",),
    ),
    "a part of an expanded input is written": found(
        ("whole = fresh(3, 4)", "x = whole[:1].expand(3, 4)"), "x[-1] -= 1", "x.diagonal().mul_(2)"
    ),
    "a part of an expanded input is written under no_grad": found(
        ("leaf = fresh(3, 4).requires_grad_()", "x = (leaf * 1)[:1].expand(3, 4)"),
        "with torch.no_grad():\n    x.diagonal()[::2].mul_(2)",
        results=("x * 1",),
    ),
    "a view of an input puts it on the tape, and no_grad follows": found(
        ("x = (fresh(3).requires_grad_()) * 1", "z = fresh(2, 3)"),
        "z.unsqueeze(0)[0].mul_(x.sum())",
        "v = z.square()",
        "with torch.no_grad():\n    u = v.sin()",
        results=("u", "v"),
        used=(1,),
        arguments=("x", "z"),
    ),
    "a view puts what it shows on the tape, and no_grad follows": found(
        NON_LEAF,
        "v = x.detach().sin()",
        "w = v.mT",
        "w += x.mT",
        "with torch.no_grad():\n    u = v[::2]",
        results=("u", "v * 2"),
        used=(1,),
    ),
    "an item puts its tensor on the tape, and no_grad follows": found(
        NON_LEAF,
        "v = x.detach() * 0",
        "v[0] = x[1]",
        "with torch.no_grad():\n    u = v.sin()",
        results=("u", "v * 2"),
        used=(1,),
    ),
    "one of two inputs in one memory comes onto the tape": found(
        ("y = (fresh(3, 4).requires_grad_()) * 1", "z = fresh(3, 4)", "x = z[...]"),
        "x[:] = y",
        results=("x * 2", "z.sin()"),
        used=(0, 1),
        arguments=("x", "y", "z"),
    ),
    "a part of what an expansion shows of a result is written": found(
        NON_LEAF, "v = x * 2", results=("v", "v.expand(2, 3, 4)"), used=(0, 1), after=("r[1][0] += 1",)
    ),
    "a part of an expanded input, after another shape": found(
        ("x = fresh(3, 4)",), "v = x.expand(2, 3, 4)", "u = v[:0]", "u.unsqueeze_(0)", "v[::2] = v[::2] * 0.5"
    ),
    "a view of what was detached comes onto the tape": found(
        NON_LEAF, "v = x.detach()", "v.unsqueeze(0)[0].mul_(x)", results=("v",), used=(0,)
    ),
    "a base with several views by one operator comes onto the tape": found(
        NON_LEAF,
        "v = fresh(3).unsqueeze(-1)",
        "u = v.split(1, -1)[0]",
        "v += x.mean()",
        results=("u.sin()",),
        used=(0,),
    ),
    "a view's counter after its base took another shape": found(
        NON_LEAF, "v = x.mT", "x.relu_()", "x.transpose_(0, 1)", results=("v",)
    ),
    # seeds 7457, 1397, 8987, 6514, 10577, 12257 of the first grammar
    "a view is written whose base has taken another shape": found(
        NON_LEAF,
        "v = x[[0, 0]]",
        "u = v.as_strided((2,), (2,), 1)",
        "v.t_()",
        "u[[0, 0]] += 0",
        results=("v",),
        used=(0,),
    ),
    "what was saved for the backward takes another shape": found(
        NON_LEAF, "v = x.amin(1, True)", "x.unsqueeze_(0)", results=("v",), used=(0,)
    ),
    "an expansion to no elements is written": found(
        ("x = fresh(1)", "y = fresh(0, 1)"),
        "v = x.expand_as(y)",
        "v.sub_(0.5)",
        results=("v",),
        arguments=("x", "y"),
    ),
    "a view of a leaf, made under no_grad, is written after a break": found(
        ("x = fresh(3, 4).requires_grad_()", "z = x.detach()"),
        "with torch.no_grad():\n    v = x[1:, ::2]",
        "u = v[:, 0]",
        "z += 1",
        "u -= u",
        results=("z * 1",),
        arguments=("x", "z"),
    ),
    "a view made under no_grad, of what comes onto the tape": found(
        NON_LEAF,
        "v = fresh(3, 4) * 2",
        "with torch.no_grad():\n    u = v.mT",
        "v.lerp_(x, 0.5)",
        results=("u", "u * 2", "v"),
        used=(1, 2),
    ),
    "a result that is one of two inputs in one memory": found(
        ("leaf = fresh(4).requires_grad_()", "x = (leaf * 1)[1:]", "y = x[1:]"),
        "x.tanh_()",
        results=("F.dropout(x, 0.5, False)",),
        used=(0,),
        arguments=("x", "y"),
    ),
    # seeds 86, 1124, 2081, 2281, 45, 1121 and 1084 of the grammar with another second call and other modes
    "a size that no result shows": found(
        NON_LEAF,
        "v = x.roll(1, 0)",
        results=("v.reshape(-1)",),
        used=(0,),
        other=(NON_LEAF[0].replace("3", "5"), NON_LEAF[1]),
    ),
    "two inputs in one memory, and sizes are open": found(
        ("x = fresh(2, 3)", "y = x.detach()"),
        "x.scatter_(0, torch.zeros(x.shape, dtype=torch.int64), 1.5)",
        results=("x * y",),
        arguments=("x", "y"),
        other=("x = fresh(4, 3)", "y = x.detach()"),
    ),
    "a size that becomes 1, where a copy then is a view": found(
        ("x = fresh(3, 4).mT",), "x.flatten()[1:].neg_()", other=("x = fresh(1, 4).mT",)
    ),
    "a part with gaps of what was made in inference mode": found(
        NON_LEAF, "with torch.inference_mode():\n    v = x * 2", results=("v[:, 0]",)
    ),
    "a view, outside of inference mode, of what was made in it": found(
        NON_LEAF, "with torch.inference_mode():\n    v = x * 2", results=("v[1:]",)
    ),
    "a view, in inference mode, of what was made outside of it": found(
        ("x = fresh(3, 4)",), "v = x * 2", "with torch.inference_mode():\n    u = v[1:]", results=("u", "v")
    ),
    # seeds 20074 to 37948: open sizes, inference mode, detach() under no_grad, views made under no_grad, detach_
    "an index outside, as eager words it, after a write": found(
        ("x = fresh(3, 4)",), "x += 1", "v = x[[0], [1]]", results=("v",), other=("x = fresh(0, 4)",)
    ),
    "a crop that nobody reads": found(
        ("x = fresh(2, 3)",), "v = F.pad(x, (0, -1, 1, -1))", results=("x * 1",), other=("x = fresh(0, 3)",)
    ),
    "a size that becomes 1, where contiguous() then is a view": found(
        ("x = fresh(3, 4).mT",), "x.contiguous().add_(1)", other=("x = fresh(1, 4).mT",)
    ),
    "a row filled with its first element, of open sizes": found(
        ("x = fresh(2, 3)",),
        "v = F.pad(x, (0, -1, 1, -1)).ravel()",
        "v.copy_(v[:1])",
        results=("v",),
        other=("x = fresh(2, 5)",),
    ),
    "a part of what was overwritten by an input": found(
        ("x = fresh(2, 3)",), "v = x * 2", "v.copy_(x)", results=("v.narrow(-1, -1, 1)",)
    ),
    "the program's own detach() under no_grad": found(
        NON_LEAF, "v = x.mT", "with torch.no_grad():\n    u = v.detach()", results=("u",)
    ),
    "detach() in inference mode, written outside of it": found(
        ("x = fresh(3, 4)",),
        "with torch.inference_mode():\n    v = x.detach()",
        "v[1:].abs_()",
        results=("v",),
    ),
    "what inference mode made is written after a break": found(
        ("x = fresh(1, 2, 2)",),
        "with torch.inference_mode():\n    v = x.clone()",
        "u = v.transpose_(0, -1)",
        "u.expand(*u.shape)[0].zero_()",
        results=("u",),
    ),
    "a view made under no_grad, of what was written since": found(
        NON_LEAF,
        "with torch.no_grad():\n    v = x.select(-1, -2)",
        "x[:, 0] *= 2",
        results=("v",),
        after=("r[0].mul_(2)",),
    ),
    "detach_ of a view": found(("x = fresh(4)",), "v = (x + 1)[1:]", "v.detach_()", results=("v",)),
    "detach_ of what is no view": found(
        ("x = fresh(4)",), "v = x + 1", "v[:] = v", "v.detach_()", results=("v",)
    ),
    "a view of what came onto the tape takes another shape": found(
        NON_LEAF,
        "v = fresh(3, 4).max(1).values",
        "v.split(1, -1)[-1].add_(x.sum())",
        "v.as_strided_((2,), (1,))",
        results=("v",),
    ),
    "a leaf takes another shape, and a view of it is written": found(
        ("x = fresh(3, 3).requires_grad_()", "y = x[..., :2]"),
        "with torch.no_grad():\n    x.unsqueeze_(-1)",
        "v = x * 2",
        "with torch.no_grad():\n    y.fill_(1.5)",
        results=("v",),
        used=(0,),
        arguments=("x", "y"),
    ),
    "an error after a break inside no_grad": found(
        NON_LEAF,
        "with torch.no_grad():\n    v = x * 2\n    v.data.mul_(3)\n    u = v.view(5)",
        results=("u",),
    ),
    "what is made of a view in inference mode": found(
        NON_LEAF,
        "v = x.sgn().select(0, -1)",
        "with torch.inference_mode():\n    u = v.index_add(0, torch.tensor([0]), v.narrow(0, 0, 1))",
        results=("u",),
    ),
    # seeds 23060, 25697, 31120, 23008 and 24381
    "detach under no_grad, of a view": found(
        NON_LEAF, "v = x[1:]", "with torch.no_grad():\n    u = v.detach()", results=("u", "u * x[1:]")
    ),
    "detach in inference mode, of what was made outside of it": found(
        ("x = fresh(3, 4)",), "v = x * 2", "with torch.inference_mode():\n    u = v.detach()", results=("u",)
    ),
    "detach in inference mode, of a view, is written": found(
        NON_LEAF, "v = x[1:]", "with torch.inference_mode():\n    u = v.detach().mul_(3)", results=("u",)
    ),
    "a crop that only some sizes have room for, and nobody reads": found(
        ("x = fresh(2, 3)",), "v = F.pad(x, (0, -1, 1, -1))", results=("x * 2",), other=("x = fresh(0, 3)",)
    ),
    "what contiguous() copies at most sizes is written": found(
        ("x = fresh(3, 1).mT",),
        "v = x[..., ::3]",
        "v.contiguous().add_(-1)",
        results=("v * 2",),
        other=("x = fresh(1, 1).mT",),
    ),
    # from the seeds 299, 4011, 5282, 6173, 7456, 8651, 9570, 12799, 13415, 16232, 19120, 40213 and 42595
    "an input with gaps, which the backward needs as it was, is written": found(
        ("leaf = fresh(1, 3).requires_grad_()", "x = (leaf * 1)[..., ::2]"),
        "x.select(0, -1).sin_()",
        results=("x * 2",),
        used=(0,),
    ),
    "a transposed input, which the backward needs as it was, is written": found(
        ("leaf = fresh(3, 4).requires_grad_()", "x = (leaf * 1).mT"),
        "x.sin_()",
        results=("x * 2",),
        used=(0,),
    ),
    "what an index under no_grad made is written outside of it": found(
        NON_LEAF, "with torch.no_grad():\n    v = x[[0, 0]]", "v[0] = x.sum()", results=("v",), used=(0,)
    ),
    "what an index under no_grad made becomes a leaf": found(
        ("x = fresh(3, 4)",),
        "with torch.no_grad():\n    v = x[[0, 0]]\n    u = v.contiguous()\n    v.requires_grad_()",
        "w = u.unsqueeze(-1)",
        "w[1:] -= w[:-1]",
        results=("w",),
    ),
    "an expansion of no elements is written by what is on the tape": found(
        ("x = fresh(0, 2)", "y = fresh(1, 2).requires_grad_() * 1"),
        "v = x.expand(2, 0, 2)",
        "v[0] = y",
        results=("v",),
        arguments=("x", "y"),
    ),
    "copy_ of another shape, into a part": found(
        ("leaf = fresh(1, 3).requires_grad_()", "x = leaf * 1"),
        "v = torch.where(x > 0, x, -1)",
        "v.mT[0].copy_(x)",
        results=("v",),
    ),
    "copy_ of another shape, into a row of another dtype": found(
        ("leaf = fresh(4, 3).requires_grad_()", "x = leaf * 1"),
        "v = x.bfloat16().narrow(0, 1, 1)",
        "v.copy_(x)",
    ),
    "a row is given too many rows": found(NON_LEAF, "v = x * 2", "v[0] = x", results=("v",)),
    "resize_ after a write to a view": found(
        ("x = fresh(2, 3)",), "v = x.narrow(0, 0, 1).zero_()", "x.resize_(2, 2)", results=("v",)
    ),
    "a view is written after resize_": found(
        ("x = fresh(3, 3)",), "v = x.squeeze(0)", "v -= v", "x.resize_(2, 2)", "v.fill_(-1)"
    ),
    "no rows, reshaped to a row, and then some": found(
        ("x = fresh(0, 3).requires_grad_()",),
        "v = x.cumsum(-1)",
        "x[:, 1:].reshape(1, -1)",
        results=("v",),
        other=("x = fresh(1, 3).requires_grad_()",),
    ),
    "no rows, reshaped to a row which takes another shape, and then some": found(
        ("x = fresh(1, 2, 2)[1:].requires_grad_()",),
        "v = torch.atan2(x, x)",
        "u = v[1:]",
        "w = v[:, 1:].reshape(1, -1)",
        "w.unsqueeze_(0)",
        results=("v",),
        other=("x = fresh(3, 2, 2)[1:].requires_grad_()",),
    ),
    "nothing is written to a view of an input, and a copy of that is handed out": found(
        ("x = fresh(3, 4)", "y = x.mT"),
        "v = x.clone()",
        "y[1:1] = -1",
        results=("v",),
        arguments=("x", "y"),
    ),
    "set_ gives a shape that no gradient can come back to": found(
        NON_LEAF,
        "v = F.pad(x, (-1, 0), value=3)",
        "with torch.no_grad():\n    v.set_(x)",
        results=("v",),
        used=(0,),
    ),
    "set_ gives a shape whose gradient is summed": found(
        ("x = fresh(3, 1).requires_grad_()",),
        "v = x * 2",
        "with torch.no_grad():\n    v.set_(torch.ones(3, 4))",
        results=("v",),
        used=(0,),
    ),
    "an index outside, in what two inputs in one memory show": found(
        ("x = fresh(3, 4)", "y = x.detach()"),
        "x.mul_(3)",
        "v = y[[0], [7]]",
        results=("v",),
        arguments=("x", "y"),
    ),
}
