"""torch.distributions without torch: samples have the moments that the distribution says, gradients flow, all compiles.

Input: the table of cases.py.
"""

import numpy as np
import pytest

from cutaway.torch_api import as_torch, torch
from tests.distributions.cases import CASES, NAMES, distribution

D = torch.distributions
HEAVY = {
    "LogNormal",
    "StudentT",
    "FisherSnedecor",
    "Pareto",
    "InverseGamma",
}  # moments that need many more draws


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_samples_have_the_moments_that_it_says(case):
    of, _ = distribution(torch, case)
    torch.manual_seed(0)
    draws = of.sample((4000,))
    assert bool(of.support.check(draws).all())
    assert torch.equal(draws, (torch.manual_seed(0), of.sample((4000,)))[1])
    try:
        mean, deviation = of.mean, of.stddev
    except NotImplementedError:
        return
    known = torch.isfinite(mean) & torch.isfinite(deviation)
    if case[0] in HEAVY or not bool(known.any()):
        return
    error = ((draws.float().mean(0) - mean).abs() / (deviation / 4000**0.5 + 1e-6))[known]
    assert float(error.max()) < 5
    spread = (draws.float().std(0) / deviation)[known & (deviation > 0)]
    assert float((spread - 1).abs().max()) < 0.25


@pytest.mark.parametrize(
    "name, parameters",
    [("Gamma", (1.7, 0.8)), ("Beta", (1.7, 0.8)), ("Normal", (0.3, 0.8)), ("Laplace", (0.3, 0.8))],
)
def test_gradients_of_samples_are_those_of_the_mean(name, parameters):
    """The mean of the samples' gradients is the gradient of the mean."""
    torch.manual_seed(0)
    leaves = [torch.tensor(p, requires_grad=True) for p in parameters]
    of = getattr(D, name)(*leaves)
    of.rsample((20000,)).mean().backward()
    got = [float(leaf.grad) for leaf in leaves]
    again = [torch.tensor(p, requires_grad=True) for p in parameters]
    getattr(D, name)(*again).mean.sum().backward()
    expected = [0.0 if leaf.grad is None else float(leaf.grad) for leaf in again]
    assert np.allclose(got, expected, atol=0.03)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_it_is_compiled_in_one_graph(case):
    """log_prob, and a draw with a seed, as eager gives them."""
    _, values = distribution(torch, case)

    def f(values):
        of = distribution(torch, case)[0]
        return of.log_prob(values), of.sample((3,))

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    results = [(torch.manual_seed(0), run(values))[1] for run in (f, compiled)]
    for got, expected in zip(results[1], results[0], strict=True):
        assert torch.allclose(got, expected, atol=1e-5, equal_nan=True)


def test_a_variational_step_is_compiled():
    """What published code writes: an encoder's distribution, a draw on the tape, a divergence, a likelihood."""
    net = torch.nn.Linear(4, 6)
    x = torch.rand(5, 4)

    def loss(x):
        loc, scale = net(x).chunk(2, -1)
        q = D.Independent(D.Normal(loc, torch.nn.functional.softplus(scale)), 1)
        z = q.rsample()
        p = D.Independent(D.Normal(torch.zeros_like(loc), torch.ones_like(scale)), 1)
        likelihood = D.Bernoulli(logits=z.sum(-1)).log_prob((x.sum(-1) > 2).float())
        return (D.kl_divergence(q, p) - likelihood + q.entropy()).mean()

    found = []
    for run in (loss, torch.compile(loss, fullgraph=True)):
        torch.manual_seed(0)
        net.zero_grad()
        value = run(x)
        value.backward()
        found.append((float(value), net.weight.grad.numpy().copy()))
    assert np.isclose(found[0][0], found[1][0], rtol=1e-5) and np.allclose(
        found[0][1], found[1][1], atol=1e-5
    )


def test_published_imports():
    with as_torch():
        from torch.distributions import Normal, constraints, kl_divergence
        from torch.distributions.multivariate_normal import MultivariateNormal  # noqa: F401
        from torch.distributions.utils import broadcast_all

    assert [tuple(t.shape) for t in broadcast_all(1.0, torch.zeros(2))] == [(2,), (2,)]

    class Shifted(Normal):
        arg_constraints = {"loc": constraints.real}

    @D.register_kl(Shifted, Shifted)
    def shifted(p, q):
        return torch.tensor(7.0)

    assert float(kl_divergence(Shifted(0.0, 1.0), Shifted(0.0, 1.0))) == 7
    assert float(kl_divergence(Shifted(0.0, 1.0), Normal(0.0, 1.0))) == 0
