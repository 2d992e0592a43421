"""The drawing of lab 16's page: which parts of the compiler each row of `cutaway ablate` still has.

Input: the rows of cutaway/debug/ablate_command.py.
"""

from __future__ import annotations

from cutaway.debug.ablate_command import ROWS

from ..drawings import LINE, head, svg

PARTS = ("capture", "autograd", "passes", "lowering", "fusion")
LEFT, WIDTH, STEP = 290, 92, 34


def has(settings: dict[str, object]) -> tuple[str, ...]:
    """The parts that a row's settings leave in."""
    backend = settings.get("debug.backend")
    if backend is None:
        return ()
    if backend == "eager":
        return PARTS[:1]
    if backend == "aot_eager":
        return PARTS[:2] if "autograd.disabled_passes" in settings else PARTS[:3]
    return PARTS[:4] if settings.get("lowering.fusion") is False else PARTS


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    parts = [head(LEFT + k * WIDTH + 6, 26, name) for k, name in enumerate(PARTS)]
    for row, (name, settings) in enumerate(ROWS):
        y = 40 + row * STEP
        parts.append(f'<text x="10" y="{y + LINE}">{name}</text>')
        for k, part in enumerate(PARTS):
            if part in has(settings):
                x = LEFT + k * WIDTH
                parts.append(
                    f'<rect class="box" x="{x}" y="{y}" width="{WIDTH - 8}" height="{STEP - 6}" rx="4"/>'
                )
    height = 50 + STEP * len(ROWS)
    title = "Each row of the table has one part more than the row above it"
    return {"rows.svg": svg(title, LEFT + WIDTH * len(PARTS) + 10, height, parts)}
