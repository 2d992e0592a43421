"""The tour's training run, short: the loss falls, compiled and eager agree, moved digits stay digits.

Input: the digits. The whole run, with its 97 %, is `cutaway tour` itself.
"""

import numpy as np
import pytest

import cutaway
from cutaway.tour import batches
from cutaway.tour.digits import load_digits
from cutaway.tour.model import DigitClassifier
from cutaway.tour.train import BATCH, EAGER, Run, Training, compiled, learning_rate, train_step


@pytest.fixture(scope="module")
def short():
    run = Run(max_steps=40)
    progress = list(run)
    return run, progress


def test_the_loss_falls(short):
    run, progress = short
    assert len(run.losses) == 40 and [p.step for p in progress] == [*range(1, 41), 40]
    assert np.mean(run.losses[-5:]) < 0.7 * np.mean(run.losses[:5])
    assert progress[-1].accuracy > 0.5


def test_the_result_says_what_happened(short):
    result = short[0].result()
    assert result.steps == 40 and result.held_out == 360 and len(result.losses) == 40
    assert result.accuracy == short[1][-1].accuracy
    assert len(result.mistakes) == round((1 - result.accuracy) * 360)
    assert result.graph_breaks == 0 and result.kernels > 0
    assert result.eager_ms > 0 and result.compiled_ms > 0 and result.note == ""


def test_timing_leaves_the_parameters_as_they_are(short):
    run = short[0]
    before = [p.detach().numpy().copy() for p in run.training.parameters]
    run._time_steps()
    assert all(
        np.array_equal(b, p.detach().numpy()) for b, p in zip(before, run.training.parameters, strict=True)
    )


def test_compiled_and_eager_steps_agree():
    images, labels = load_digits()
    x, y = batches.as_tensors(images[:BATCH], labels[:BATCH], "cpu")
    ended = []
    for functions in (EAGER, compiled()):
        cutaway.manual_seed(3)
        training = Training(DigitClassifier(width=16))
        losses = [train_step(training, functions, x, y, 3e-3).item() for _ in range(5)]
        ended.append((losses, [p.detach().numpy() for p in training.parameters]))
    np.testing.assert_allclose(ended[0][0], ended[1][0], rtol=1e-5)
    for a, b in zip(ended[0][1], ended[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_the_learning_rate_rises_and_falls_to_nothing():
    rates = [learning_rate(step, 100) for step in range(100)]
    assert rates[0] < rates[9] > rates[50] > rates[99] > 0
    assert rates[99] < rates[9] / 100


def test_moved_digits_keep_their_pixels():
    images = load_digits()[0]
    moved = batches.move_some(images, np.random.RandomState(0))
    assert moved.shape == images.shape and moved.dtype == images.dtype
    assert 0.3 < (moved == images).all(axis=1).mean() < 0.7
    # Nothing is invented: a pixel only ever leaves at the edge.
    assert (moved.sum(axis=1) <= images.sum(axis=1)).all()


def test_an_epoch_is_every_digit_at_most_once():
    images, labels = load_digits()
    numbered = np.arange(len(labels))
    seen = [y.numpy() for _, y in batches.batches(images, numbered, 64, np.random.RandomState(0), "cpu")]
    together = np.concatenate(seen)
    assert len(seen) == len(labels) // 64 and len(set(together)) == len(together) == 64 * len(seen)
