"""The explorer's page of a training step, made when the site is built: the tour, live.

Input: a small network and its loss, compiled here.
"""

import tempfile
from pathlib import Path

import cutaway
from cutaway.explorer import explain_html

F = cutaway.nn.functional


@cutaway.compile
def loss_of(x, w1, b1, w2, target):
    hidden = F.relu(F.linear(x, w1, b1))
    return F.cross_entropy(hidden @ w2, target)


def tour_html():
    """A page that shows a network, its loss and its gradients at every station of the compiler."""
    cutaway.manual_seed(0)
    x, target = cutaway.randn(32, 64), cutaway.arange(32) % 10
    weights = (cutaway.randn(48, 64) * 0.1, cutaway.zeros(48), cutaway.randn(48, 10) * 0.1)
    loss_of(x, *(w.requires_grad_() for w in weights), target).backward()
    with tempfile.TemporaryDirectory() as folder:
        return explain_html(loss_of, Path(folder) / "tour.html", site=True).read_text(encoding="utf-8")
