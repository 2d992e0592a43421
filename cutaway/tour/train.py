"""The training step that the tour compiles, and the run that trains the classifier with it.

Input: the digits, a Pipeline if a seam is swapped. Three functions are compiled: the loss (its backward
comes with it), the update of all parameters, the logits of the held-out digits. The same functions, not
compiled, are what the step is timed against.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cutaway
from cutaway import nn
from cutaway.tour.batches import as_tensors, batches
from cutaway.tour.digits import load_digits, split
from cutaway.tour.model import DigitClassifier
from cutaway.tour.results import Mistake, TourResult
from stage0_eager.optim.optimizer import adamw_update
from stage_contracts import events

F = nn.functional

BATCH = 64
PEAK_RATE = 3e-3
WARM_UP = 0.1  # the share of steps in which the learning rate rises
BETA1, BETA2, EPSILON, WEIGHT_DECAY = 0.9, 0.999, 1e-8, 0.01
TIMED_PAIRS = 40

# ---- what is compiled --------------------------------------------------------------------------


def loss_function(model, images, labels):
    """Mean cross entropy of the model's logits with the labels."""
    return F.cross_entropy(model(images), labels)


def predict(model, images):
    """The model's logits, [n, 10]."""
    return model(images)


def update(parameters, gradients, means, squares, rate, correction1, correction2):
    """AdamW for all parameters at once: a (parameter, mean, square) of new values for each.

    rate and the corrections are 0-dimensional tensors: as Python numbers, each new value would need a new compile.
    """
    return [
        adamw_update(
            p, g, m, s, rate, BETA1, BETA2, EPSILON, WEIGHT_DECAY, correction1, correction2
        )
        for p, g, m, s in zip(parameters, gradients, means, squares, strict=True)
    ]  # fmt: skip


# ---- one step ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Functions:
    """The functions of a step, compiled or not."""

    loss: Any
    update: Any
    predict: Any

    @property
    def artifacts(self) -> list[Any]:
        return [a for f in (self.loss, self.update, self.predict) for a in getattr(f, "artifacts", ())]


EAGER = Functions(loss_function, update, predict)


def compiled(pipeline: Any = None) -> Functions:
    """The same functions, compiled at their first call."""
    return Functions(*(cutaway.compile(f, pipeline=pipeline) for f in (loss_function, update, predict)))


@dataclass
class Training:
    """A model, and AdamW's averages of its gradients."""

    model: Any
    means: list[Any] = field(default_factory=list)
    squares: list[Any] = field(default_factory=list)
    step: int = 0

    def __post_init__(self) -> None:
        self.parameters = list(self.model.parameters())
        self.means = [cutaway.zeros_like(p) for p in self.parameters]
        self.squares = [cutaway.zeros_like(p) for p in self.parameters]


def train_step(training: Training, functions: Functions, images: Any, labels: Any, rate: float) -> Any:
    """Do one step. Returns the loss before it, as a tensor."""
    loss = functions.loss(training.model, images, labels)
    loss.backward()
    training.step += 1
    device = images.device
    numbers = [rate, 1 - BETA1**training.step, math.sqrt(1 - BETA2**training.step)]
    with cutaway.no_grad():
        gradients = [p.grad for p in training.parameters]
        scalars = [cutaway.tensor(n, dtype=cutaway.float32, device=device) for n in numbers]
        new = functions.update(training.parameters, gradients, training.means, training.squares, *scalars)
        for parameter, (value, _, _) in zip(training.parameters, new, strict=True):
            parameter.copy_(value)
            parameter.grad = None
    training.means, training.squares = [m for _, m, _ in new], [s for _, _, s in new]
    return loss


def learning_rate(step: int, steps: int) -> float:
    """The learning rate of a step: it rises linearly, then falls like half a cosine."""
    rising = min(1.0, (step + 1) / max(1.0, WARM_UP * steps))
    return PEAK_RATE * rising * 0.5 * (1 + math.cos(math.pi * step / steps))


# ---- the run -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """The state of a run after each step. accuracy: on the held-out digits, after the last whole epoch."""

    step: int
    steps: int
    loss: float
    accuracy: float | None = None


@dataclass
class Run:
    """A run in progress: `for progress in run: ...` trains; `result()` then measures and reports."""

    epochs: int = 30
    seed: int = 0
    device: str = "cpu"
    pipeline: Any = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
        self.mark = events.EVENT_LOG.mark()
        self.random = np.random.RandomState(self.seed)
        self.train_images, self.train_labels, self.held_images, self.held_labels = split(*load_digits())
        cutaway.manual_seed(self.seed)
        self.training = Training(DigitClassifier().to(self.device))
        self.functions = compiled(self.pipeline)
        self.losses: list[float] = []
        self.accuracy: float | None = None
        whole = self.epochs * (len(self.train_labels) // BATCH)
        self.steps = whole if self.max_steps is None else min(whole, self.max_steps)

    def __iter__(self) -> Iterator[Progress]:
        while len(self.losses) < self.steps:
            for images, labels in self._batches():
                rate = learning_rate(len(self.losses), self.steps)
                loss = train_step(self.training, self.functions, images, labels, rate)
                self.losses.append(loss.item())
                yield Progress(len(self.losses), self.steps, self.losses[-1], self.accuracy)
                if len(self.losses) == self.steps:
                    break
            self.accuracy = float((self.predictions() == self.held_labels).mean())
        yield Progress(self.steps, self.steps, self.losses[-1], self.accuracy)

    def _batches(self) -> Iterator[tuple[Any, Any]]:
        return batches(self.train_images, self.train_labels, BATCH, self.random, self.device)

    def predictions(self) -> np.ndarray:
        """The predicted label of each held-out digit, [360]."""
        self.training.model.eval()
        images, _ = as_tensors(self.held_images, self.held_labels, self.device)
        with cutaway.no_grad():
            logits = self.functions.predict(self.training.model, images)
        self.training.model.train()
        return logits.argmax(1).cpu().numpy()

    def result(self) -> TourResult:
        """The results after training."""
        compiled_ms, eager_ms = self._time_steps()
        predicted = self.predictions()
        wrong = np.flatnonzero(predicted != self.held_labels)
        halves = [h for a in self.functions.artifacts for h in (a.forward, a.backward) if h is not None]
        seen = events.EVENT_LOG.since(self.mark)
        reasons = [str(e.details.get("reason", "")) for e in seen if e.kind == "fallback"]
        return TourResult(
            accuracy=float((predicted == self.held_labels).mean()),
            held_out=len(self.held_labels),
            steps=self.steps,
            losses=tuple(self.losses),
            eager_ms=eager_ms,
            compiled_ms=compiled_ms,
            compile_s=sum(e.duration_ns for e in seen if e.kind == "compile") / 1e9,
            kernels=0 if reasons else sum(len(h.planned.kernels) for h in halves),
            graph_breaks=sum(e.kind == "graph_break" for e in seen),
            seconds=time.perf_counter() - self.started,
            device=self.device,
            note=f"{reasons[0]}; the graphs ran on NumPy" if reasons else "",
            mistakes=tuple(
                Mistake(self.held_images[k], int(self.held_labels[k]), int(predicted[k])) for k in wrong
            ),
        )

    def _time_steps(self) -> tuple[float, float]:
        """Median milliseconds of a step, compiled and eager. They run in turn, so that the load of the machine is the
        same.

        The learning rate is 0: the steps do all the work of training, but do not change the parameters.
        """
        images, labels = next(self._batches())
        times: dict[str, list[float]] = {"compiled": [], "eager": []}
        for pair in range(TIMED_PAIRS + 2):
            for name, functions in (("compiled", self.functions), ("eager", EAGER)):
                begun = time.perf_counter()
                train_step(self.training, functions, images, labels, rate=0.0).item()
                if pair >= 2:  # the first two pairs warm up the machine's caches
                    times[name].append((time.perf_counter() - begun) * 1e3)
        return statistics.median(times["compiled"]), statistics.median(times["eager"])
