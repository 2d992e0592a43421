"""error_on_graph_break: a region in which a graph break is an error, or is not. Capture follows it like no_grad.

Input: compiled code runs in such a region or enters one; the innermost region decides.
"""

from __future__ import annotations

from contextlib import ContextDecorator

from stage0_eager.state import STATE, settle


class error_on_graph_break(ContextDecorator):
    """`with error_on_graph_break(True):` a break in code compiled inside raises; with False it does not.

    Context manager and decorator, outside and inside compiled code. `fullgraph=True` is stronger: False inside it
    changes nothing. Named and meant as torch._dynamo.error_on_graph_break.
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error = bool(error_on_graph_break)
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(STATE.error_on_break)
        STATE.error_on_break = self.error
        settle()

    def __exit__(self, *_: object) -> None:
        STATE.error_on_break = self._before.pop()
        settle()

    def _recreate_cm(self) -> error_on_graph_break:
        return error_on_graph_break(self.error)


def errors_on_graph_break() -> bool:
    """Whether a break is an error here, by the innermost error_on_graph_break."""
    return bool(STATE.error_on_break)
