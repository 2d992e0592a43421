"""Programs with numbers and sizes that only the data knows; each is one graph on every backend.

Input: the module to call (Cutaway's torch, or torch itself, the oracle), then what `inputs(seed)` makes: a vector, a
number, lengths that add up to the vector's size, a mask, a matrix. GRADIENTS: those whose result depends on the vector
smoothly, so that a backward can be compared, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: dict[str, Callable[..., Any]] = {}
GRADIENTS: set[str] = set()


def inputs(seed: int) -> list[np.ndarray]:
    """A vector of 8, a number from 0 to 8, three lengths that add up to 8, a mask, a matrix of 8 by 3."""
    rng = np.random.default_rng(seed)
    cuts = sorted(rng.integers(0, 9, 2))
    lengths = np.array([cuts[0], cuts[1] - cuts[0], 8 - cuts[1]], np.int64)
    number = np.array([3, 8, 1, 0, 5][seed % 5], np.int64)
    mask = np.zeros(8, bool) if seed % 5 == 3 else np.ones(8, bool) if seed % 5 == 1 else rng.random(8) > 0.5
    vector, matrix = rng.standard_normal(8), rng.standard_normal((8, 3))
    return [vector.astype(np.float32), number, lengths, mask, matrix.astype(np.float32)]


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


def smooth(function: Callable[..., Any]) -> Callable[..., Any]:
    GRADIENTS.add(function.__name__)
    return program(function)


def _known(t: Any, n: Any, least: int = 0) -> Any:
    """The number, with the checks that a size of 8 needs."""
    u = n.item()
    t._check(u >= least)
    t._check(u <= 8)
    return u


# ---- item ------------------------------------------------------------------------------------------------------


@program
def item_returned(t, x, n, c, m, w):
    return n.item()


@program
def item_arithmetic(t, x, n, c, m, w):
    u = n.item()
    return u * 2 + 1, u - 3, -u, (u + 4) // 2, (u + 4) % 3


@program
def item_divided(t, x, n, c, m, w):
    return n.item() / 4, 1 / (n.item() + 1)


@program
def item_float(t, x, n, c, m, w):
    return x.sum().item() * 2.0 + 1


@program
def item_as_size(t, x, n, c, m, w):
    return t.zeros(_known(t, n)) + 1


@program
def item_as_two_sizes(t, x, n, c, m, w):
    u = _known(t, n)
    return t.ones(u, u + 1).sum(1)


@program
def item_in_full(t, x, n, c, m, w):
    return t.full((_known(t, n),), 2.5).exp()


@program
def item_in_arange(t, x, n, c, m, w):
    return t.arange(_known(t, n)) * 2


@smooth
def item_slice(t, x, n, c, m, w):
    return x[: _known(t, n)].sin()


@smooth
def item_slice_from(t, x, n, c, m, w):
    return x[_known(t, n) :] * 3


@smooth
def item_narrow(t, x, n, c, m, w):
    return x.narrow(0, 0, n.item()).exp()


@smooth
def item_narrow_checked(t, x, n, c, m, w):
    u = _known(t, n)
    return x.narrow(0, u, 8 - u) + 1


@smooth
def item_rows(t, x, n, c, m, w):
    return w[: _known(t, n)].sum(0) + x.sum()


@smooth
def item_both_parts(t, x, n, c, m, w):
    u = _known(t, n)
    return t.cat([x[u:], x[:u]]).cos()


@smooth
def item_operand(t, x, n, c, m, w):
    return x * n.item() + n.item()


@smooth
def item_float_operand(t, x, n, c, m, w):
    return x * w.sum().item() - 0.5


@program
def item_of_integers(t, x, n, c, m, w):
    return c * n.item() - n.item()


@program
def int_of_tensor(t, x, n, c, m, w):
    return x[: int(t.clamp(n, 0, 4)) * 0 + 2] * 2


@program
def float_of_tensor(t, x, n, c, m, w):
    return x + float(n)


@program
def int_of_float(t, x, n, c, m, w):
    return int(x.abs().sum()) + 1


@smooth
def item_expanded(t, x, n, c, m, w):
    return x.expand(_known(t, n), 8).sum(0)


@smooth
def item_repeated(t, x, n, c, m, w):
    return x[None].expand(_known(t, n, 0), 8).reshape(-1).sum()


@smooth
def item_padded(t, x, n, c, m, w):
    u = _known(t, n)
    return t.nn.functional.pad(x, (0, u)).sum() * 2


@smooth
def item_matrix_product(t, x, n, c, m, w):
    u = _known(t, n)
    return x[:u] @ w[:u]


@smooth
def item_softmax(t, x, n, c, m, w):
    return x.repeat(2)[: _known(t, n) + 1].softmax(0) * 2


@smooth
def item_mean_of_rows(t, x, n, c, m, w):
    u = _known(t, n)
    return (w[:u] * x[:u, None]).sum(1)


@smooth
def item_reshaped(t, x, n, c, m, w):
    u = _known(t, n)
    return (w[:u].reshape(-1) * x.sum()).sin()


@smooth
def item_written(t, x, n, c, m, w):
    y = x * 1
    y[: _known(t, n)] = 0
    return y * 2


@smooth
def item_view_returned(t, x, n, c, m, w):
    u = _known(t, n)
    return x[:u], x[u:]


@smooth
def item_view_of_result(t, x, n, c, m, w):
    y = x * 2
    u = _known(t, n)
    return y, y[:u]


# ---- nonzero ---------------------------------------------------------------------------------------------------


@program
def nonzero_places(t, x, n, c, m, w):
    return t.nonzero(m)


@program
def nonzero_of_matrix(t, x, n, c, m, w):
    return t.nonzero(w > 0.3)


@program
def nonzero_columns(t, x, n, c, m, w):
    rows, columns = t.nonzero(w > 0, as_tuple=True)
    return rows * 3 + columns


@program
def nonzero_counted(t, x, n, c, m, w):
    return t.nonzero(m).shape[0] + 1


@program
def nonzero_sum(t, x, n, c, m, w):
    return t.nonzero(m).sum()


@smooth
def nonzero_gathered(t, x, n, c, m, w):
    return x[t.nonzero(m, as_tuple=True)[0]].sin()


@program
def where_alone(t, x, n, c, m, w):
    return t.where(m)[0] + 1


@program
def argwhere_places(t, x, n, c, m, w):
    return t.argwhere(w > 0).sum(0)


@smooth
def nonzero_matrix_rows(t, x, n, c, m, w):
    rows = t.nonzero(m)[:, 0]
    return (w[rows] * x[rows][:, None]).sum()


# ---- masks -----------------------------------------------------------------------------------------------------


@smooth
def masked_select_sum(t, x, n, c, m, w):
    return t.masked_select(x, m).sum()


@smooth
def masked_select_exp(t, x, n, c, m, w):
    return t.masked_select(x, m).exp() + 1


@smooth
def masked_select_broadcast(t, x, n, c, m, w):
    return t.masked_select(w * x[:, None], m[:, None]).sin()


@smooth
def mask_index(t, x, n, c, m, w):
    return x[m] * 2


@smooth
def mask_index_rows(t, x, n, c, m, w):
    return (w * x[:, None])[m].sum(1)


@smooth
def mask_made_inside(t, x, n, c, m, w):
    return x[w[:, 0] > 0].tanh()


@smooth
def mask_twice(t, x, n, c, m, w):
    return x[m] + x[m].cos()


@smooth
def two_masks(t, x, n, c, m, w):
    return x[m].sum() * x[~m].sum()


@smooth
def mask_mean(t, x, n, c, m, w):
    y = x[m]
    return y.sum() / (y.shape[0] + 1)


@program
def mask_shape(t, x, n, c, m, w):
    y = x[m]
    return y.shape[0] * 2, y.numel(), t.ones(y.shape[0] + 1)


@smooth
def mask_then_product(t, x, n, c, m, w):
    return x[m] @ w[m]


@smooth
def mask_then_matrix_product(t, x, n, c, m, w):
    return (w[m] * x.sum()) @ w.T


@smooth
def mask_joined(t, x, n, c, m, w):
    return t.cat([x[m], x[~m]]).sin()


@smooth
def mask_standardised(t, x, n, c, m, w):
    y = w[m] * x.sum()
    return (y - y.mean(1, keepdim=True)).exp()


@program
def mask_written(t, x, n, c, m, w):
    y = x.clone()
    y[m] = 1.5
    return y[m] + 1


@smooth
def mask_written_with_values(t, x, n, c, m, w):
    y = x * 1
    y[m] = y[m] * 2
    return y


@smooth
def mask_scaled_in_place(t, x, n, c, m, w):
    y = w * x[:, None]
    y[m] *= 3
    return y


@smooth
def mask_of_rows_added(t, x, n, c, m, w):
    """As a mixture of experts does."""
    out = t.zeros(8, 3)
    for mask in (m, ~m):
        rows = t.where(mask)[0]
        out = out.index_add(0, rows, w[rows] * x[rows][:, None])
    return out


@smooth
def mask_scattered(t, x, n, c, m, w):
    return t.zeros(8).scatter(0, t.nonzero(m)[:, 0], x[m])


@smooth
def mask_of_logits(t, x, n, c, m, w):
    """The mean of no rows is not a number, in eager too."""
    return t.nn.functional.cross_entropy((w * x[:, None])[m], m.long()[m])


# ---- lists of lengths ------------------------------------------------------------------------------------------


@program
def lengths_as_list(t, x, n, c, m, w):
    return c.tolist()


@program
def lengths_sum(t, x, n, c, m, w):
    return sum(c.tolist()) + 1


@smooth
def split_by_lengths(t, x, n, c, m, w):
    a, b, d = x.split(c.tolist())
    return a.sum(), b.sin().sum(), d.exp()


@smooth
def split_rows_by_lengths(t, x, n, c, m, w):
    return [part.sum(0) for part in t.split(w * x[:, None], c.tolist())]


@smooth
def lengths_padded(t, x, n, c, m, w):
    parts = x.split(c.tolist())
    return t.stack([t.nn.functional.pad(part, (0, 8 - part.shape[0])) for part in parts])


@program
def lengths_as_mask(t, x, n, c, m, w):
    return (t.arange(8)[None] < c[:, None]).sum(1) * c.tolist()[0]


@smooth
def first_length(t, x, n, c, m, w):
    first = c.tolist()[0]
    t._check(first >= 0)
    t._check(first <= 8)
    return x[:first] + 1


@smooth
def repeated_by_counts(t, x, n, c, m, w):
    return t.repeat_interleave(x, m.long() + 1).sin()


@smooth
def repeated_rows(t, x, n, c, m, w):
    return t.repeat_interleave(w * x[:, None], m.long() * 2, dim=0).sum(1)


@program
def segments_of_lengths(t, x, n, c, m, w):
    return t.repeat_interleave(t.arange(3), c)


# ---- sets of values --------------------------------------------------------------------------------------------


@program
def unique_values(t, x, n, c, m, w):
    return t.unique(c)


@program
def unique_with_counts(t, x, n, c, m, w):
    values, inverse, counts = t.unique(m.long(), return_inverse=True, return_counts=True)
    return values * counts, inverse


@program
def bincount_of_numbers(t, x, n, c, m, w):
    return t.bincount(c)


@program
def bincount_at_least(t, x, n, c, m, w):
    return t.bincount(m.long(), minlength=4) * 2


@program
def bincount_weighted(t, x, n, c, m, w):
    return t.bincount(m.long(), weights=x)


# ---- checks ----------------------------------------------------------------------------------------------------
