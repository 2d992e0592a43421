"""ResNet-50 and a vision transformer as functions of their parameters, one text for torch and for Cutaway.

Input: none. Each gives the shapes of its parameters, in order, and a function of (m, f, *parameters, images, classes).
"""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.transformer import LAYER, layer, parameters

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # blocks, width, stride of the first
CLASSES = 1000


def resnet_parameters() -> list[tuple[int, ...]]:
    """Convolutions' weights, each with the gain and shift of its batch norm; then the last layer's."""
    found: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for count, width, _ in STAGES:
        for k in range(count):
            short = ((4 * width, inputs, 1, 1),) * (k == 0)
            weights = (width, inputs, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1), *short
            for weight in weights:
                found += [weight, weight[:1], weight[:1]]
            inputs = 4 * width
    return [*found, (CLASSES, inputs), (CLASSES,)]


def resnet(m: Any, f: Any, *given: Any) -> Any:
    """The loss, batch norm by the statistics of the batch."""
    *weights, images, classes = given
    queue = iter(weights)

    def conv(x: Any, stride: int = 1) -> Any:
        w, gain, shift = (next(queue) for _ in range(3))
        x = f.conv2d(x, w, None, stride, w.shape[-1] // 2)
        return f.batch_norm(x, None, None, 1 + gain, shift, True)

    x = f.max_pool2d(f.relu(conv(images, 2)), 3, 2, 1)
    for count, _, stride in STAGES:
        for k in range(count):
            first = stride if k == 0 else 1
            y = conv(f.relu(conv(f.relu(conv(x)), first)))
            x = f.relu(y + (conv(x, first) if k == 0 else x))
    w, b = next(queue), next(queue)
    return f.cross_entropy(f.linear(x.mean((2, 3)), w, b).float(), classes)


PATCH, SIDE, DEPTH, WIDTH = 16, 224, 12, 768


def vit_parameters() -> list[tuple[int, ...]]:
    """The patches' projection and places, the layers', the last norm's, the last layer's."""
    tokens = (SIDE // PATCH) ** 2
    layers = parameters(DEPTH, WIDTH, 1, 1)[2 : 2 + DEPTH * LAYER]
    return [(WIDTH, 3 * PATCH * PATCH), (tokens, WIDTH), *layers, (WIDTH,), (WIDTH,), (CLASSES, WIDTH)]


def vit(m: Any, f: Any, *given: Any) -> Any:
    """The loss of a ViT-B/16 without a class token: the mean of all tokens is classified."""
    patch, places, *rest, gain, shift, head, images, classes = given
    batch, count = images.shape[0], SIDE // PATCH
    x = images.reshape(batch, 3, count, PATCH, count, PATCH).permute(0, 2, 4, 1, 3, 5)
    x = f.linear(x.reshape(batch, count * count, 3 * PATCH * PATCH), patch) + places
    for k in range(DEPTH):
        x = layer(f, x, 12, False, *rest[LAYER * k : LAYER * (k + 1)])
    x = f.layer_norm(x, (WIDTH,), 1 + gain, shift).mean(1)
    return f.cross_entropy((x @ head.t()).float(), classes)
