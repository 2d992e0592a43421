"""torch.distributions here and there: log_prob and its gradient, entropy, moments, cdf, divergences, transforms.

Input: the table of cases.py. Both compute in float32.
"""

import re

import numpy as np
import pytest

from cutaway.torch_api import torch as ours
from tests.distributions.cases import CASES, NAMES, PAIRS, distribution

torch = pytest.importorskip("torch")

ASKED = ["mean", "variance", "stddev", "mode", "batch_shape", "event_shape", "has_rsample", "support"]


def asked(language, case):
    """What a distribution says of itself, as arrays and texts; an answer that is not there as the exception's class."""
    of, values = distribution(language, case)
    found = {"shown": str(of)}  # first, because torch shows later what it was asked for
    found |= {name: answer(lambda name=name: getattr(of, name)) for name in ASKED}
    found["log_prob"] = answer(lambda: of.log_prob(values))
    found["entropy"] = answer(of.entropy)
    found["cdf"] = answer(lambda: of.cdf(values))
    found["icdf"] = answer(lambda: of.icdf(language.tensor(0.3)))
    found["drawn shape"] = tuple(of.sample((2, 4)).shape)
    if of.batch_shape:
        found["larger"] = answer(lambda: of.expand((5, *of.batch_shape)).log_prob(values))
    return found


def answer(question):
    try:
        value = question()
    except NotImplementedError as error:
        return type(error).__name__
    if hasattr(value, "detach"):
        return value.detach().numpy()
    return tuple(value) if isinstance(value, tuple) else repr(value) if not isinstance(value, bool) else value


def text(value):
    """A constraint or a distribution as text, without what a line of numbers looks like."""
    return str(value).replace("torch.Size([", "(").replace("])", ")").replace(",)", ")").replace(" ", "")


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_it_says_what_torchs_says(case):
    theirs, mine = asked(torch, case), asked(ours, case)
    for name, expected in theirs.items():
        got = mine[name]
        if isinstance(expected, np.ndarray):
            assert isinstance(got, np.ndarray), (name, got)
            assert got.shape == expected.shape, name
            assert np.allclose(got, expected, rtol=3e-5, atol=3e-6, equal_nan=True), (name, got, expected)
        elif name == "shown":  # a few of torch's classes show none of their parameters
            known = (
                expected.replace(", logits: torch.Size([3])", "")
                if case[0] == "MixtureSameFamily"
                else expected
            )
            assert text(got) == text(known) or expected.endswith("()")
        elif name != "support" or not {"tensor", "MixtureSameFamilyConstraint"} & {
            *re.findall(r"\w+", str(expected))
        }:
            assert got == expected or text(got) == text(expected), (name, got, expected)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0][0]}-{pair[1][0]}")
def test_divergences_are_torchs(pair):
    found = []
    for language in (torch, ours):
        p, q = (distribution(language, (*case[:3], [0.0]))[0] for case in pair)
        found.append(language.distributions.kl_divergence(p, q).numpy())
    assert np.allclose(found[1], found[0], rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case[0] in ("Normal", "Gamma", "Beta", "StudentT", "Poisson")], ids=str
)
def test_gradients_of_log_prob_are_torchs(case):
    name, parameters, named, values = case
    gradients = []
    for language in (torch, ours):
        leaves = [language.tensor(p, requires_grad=True) for p in parameters]
        getattr(language.distributions, name)(*leaves).log_prob(language.tensor(values)).sum().backward()
        gradients.append([leaf.grad.numpy() for leaf in leaves])
    for got, expected in zip(gradients[1], gradients[0], strict=True):
        assert np.allclose(got, expected, rtol=3e-5, atol=3e-6)


# the transform of a torch's transforms, and values; far ones, whose results are rounded to the edge
TRANSFORMS = {
    "Exp": (lambda t, **kept: t.ExpTransform(**kept), [0.5, -1.0, 30.0]),
    "Sigmoid": (lambda t, **kept: t.SigmoidTransform(**kept), [0.5, -1.0, 40.0]),
    "Softplus": (lambda t, **kept: t.SoftplusTransform(**kept), [0.5, -1.0]),
    "Tanh": (lambda t, **kept: t.TanhTransform(**kept), [0.5, -1.0]),
    "Power": (lambda t, **kept: t.PowerTransform(2.0, **kept), [0.5, 1.5]),
    "Affine": (lambda t, **kept: t.AffineTransform(1.0, -3.0, **kept), [0.5, 1.5]),
    "StickBreaking": (lambda t, **kept: t.StickBreakingTransform(**kept), [0.5, 1.5, -2.0]),
    "StickBreaking far": (lambda t, **kept: t.StickBreakingTransform(**kept), [30.0, -40.0, 100.0]),
    "Reshape": (lambda t, **kept: t.ReshapeTransform((4,), (2, 2), **kept), [0.5, 1.5, -2.0, 1.0]),
    "Independent": (lambda t, **kept: t.IndependentTransform(t.ExpTransform(), 1, **kept), [0.5, -1.0]),
    "Independent of too few": (lambda t, **kept: t.IndependentTransform(t.ExpTransform(), 1, **kept), 0.5),
    "Compose": (
        lambda t, **kept: t.ComposeTransform([t.ExpTransform(), t.AffineTransform(0.0, 3.0)], **kept), [0.5, 80.0, 100.0]
    ),
}  # fmt: skip


def of_transform(language, make, values, kept):
    """What a transform gives: y, x again, both slopes, whether the inverse is x itself, and their strides."""
    transform, x = make(language.distributions.transforms, **kept), language.tensor(values)
    try:
        y = transform(x)
    except ValueError as error:
        return str(error)
    again = transform.inv(y)
    parts = y, again, transform.log_abs_det_jacobian(x, y), transform.inv.log_abs_det_jacobian(y, x)
    return [part.numpy() for part in parts], [part.stride() for part in parts], again is x, str(transform)


@pytest.mark.parametrize("kept", [{}, {"cache_size": 1}], ids=str)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_torchs(name, kept):
    expected, got = (of_transform(language, *TRANSFORMS[name], kept) for language in (torch, ours))
    assert got[1:] == expected[1:]
    if not isinstance(got, str):
        for mine, theirs in zip(got[0], expected[0], strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=3e-5, atol=3e-6)


def test_a_cached_transform_keeps_log_prob_at_the_edge():
    found = []
    for language in (torch, ours):
        d = language.distributions
        base = d.Normal(language.zeros(3), 1.0)
        whole = d.TransformedDistribution(
            base, [d.TanhTransform(cache_size=1), d.AffineTransform(0.0, 2.0).with_cache()]
        )
        x = language.tensor([0.5, 9.0, 30.0])
        y = x
        for transform in whole.transforms:
            y = transform(y)
        found.append(whole.log_prob(y).numpy())
    assert np.isfinite(found[0]).all()
    np.testing.assert_allclose(found[1], found[0], rtol=3e-5)


CONSTRAINTS = "real positive unit_interval simplex nonnegative".split()


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints_and_their_transforms_are_torchs(name):
    x = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
    found = []
    for language in (torch, ours):
        constraint = getattr(language.distributions.constraints, name)
        for registry in (language.distributions.biject_to, language.distributions.transform_to):
            y = registry(constraint)(language.from_numpy(x))
            assert bool(constraint.check(y).all())
            found.append(y.numpy())
    assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(found[:2], found[2:], strict=True))


@pytest.fixture
def torch_checks(monkeypatch):
    """torch.compile, which another test may have called, turns torch's checks off."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@pytest.mark.usefixtures("torch_checks")
@pytest.mark.parametrize(
    "wrong",
    [
        lambda d, t: d.Normal(0.0, -1.0),
        lambda d, t: d.Categorical(t.tensor([0.5, -0.5])),
        lambda d, t: d.Bernoulli(0.5, 0.5),
        lambda d, t: d.Uniform(1.0, 0.0),
        lambda d, t: d.Bernoulli(0.5).log_prob(t.tensor(0.5)),
        lambda d, t: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
        lambda d, t: d.Dirichlet(t.ones(3)).log_prob(t.ones(2)),
        lambda d, t: d.Normal("0", 1.0),
        lambda d, t: d.MultivariateNormal(t.zeros(2)),
        lambda d, t: d.Independent(d.Normal(0.0, 1.0), 1),
        lambda d, t: d.kl_divergence(d.Normal(0.0, 1.0), d.Cauchy(1.0, 1.0)),
    ],
    ids=range(11),
)
def test_wrong_arguments_raise_the_same(wrong):
    errors = []
    for language in (torch, ours):
        with pytest.raises((ValueError, NotImplementedError)) as told:
            wrong(language.distributions, language)
        errors.append((type(told.value), text(str(told.value).split("\n")[0])[:60]))
    assert errors[1] == errors[0]
