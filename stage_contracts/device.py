"""Where a tensor lives: `cpu`, `cuda:0`, `meta`. Plain data; no stage keeps a current device in a global.

Input: `"cuda"`, `"cuda:1"`, or a Device. Names and syntax follow torch.device.
"""

from __future__ import annotations

from dataclasses import dataclass

DEVICE_TYPES = ("cpu", "cuda", "meta")  # tensors on meta have a shape and a dtype, and no data
NAMED_TYPES = ("mps", "xpu", "mtia", "hpu", "xla")  # torch's: a program compares with them


@dataclass(frozen=True)
class Device:
    """`type` is one of DEVICE_TYPES; `index` counts GPUs from 0 and is 0 on the CPU. Device("cuda:1") says both.
    Device("mps") and the like can be compared with; device_of refuses them, so no tensor is there.

    Raises RuntimeError for a name of another form.
    """

    type: str
    index: int = 0

    def __post_init__(self) -> None:
        if self.type in DEVICE_TYPES:
            return
        kind, _, index = str(self.type).partition(":")
        if kind not in DEVICE_TYPES + NAMED_TYPES or (index and not index.isdigit()):
            raise RuntimeError(
                f"device {self.type!r} is unknown; expected 'cpu', 'cuda', 'cuda:<index>' or 'meta'"
            )
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "index", int(index or 0))

    def __str__(self) -> str:
        return self.type if self.type in ("cpu", "meta") else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"cutaway.device({str(self)!r})"


CPU = Device("cpu")


def device_of(value: object = None) -> Device:
    """The Device that `value` (None, a string such as `"cuda:1"`, a Device) names. Raises RuntimeError."""
    if value is None:
        return CPU
    found = value if isinstance(value, Device) else Device(str(value))
    if found.type not in DEVICE_TYPES:
        raise RuntimeError(
            f"no tensor can be on the device {found.type!r} here; expected 'cpu', 'cuda' or 'meta'"
        )
    return found
