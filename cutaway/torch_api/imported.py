"""What Python's import machinery and importlib.metadata are told of these modules: that they are torch, which version.

Input: the modules, once made. Libraries ask `importlib.util.find_spec("torch")` and
`importlib.metadata.version("torch")` before they import it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

VERSION = "2.13.0+cutaway"  # the torch whose language this is; libraries ask for at least some version


def give_specs(modules: dict[str, ModuleType]) -> None:
    """Give each module a spec that the import machinery takes for a package's."""
    for name, module in modules.items():
        module.__spec__ = ModuleSpec(name, None, is_package=True)


class TorchDistribution(Distribution):
    """The package torch as importlib.metadata sees it."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path


def distributions(context: DistributionFinder.Context) -> Iterable[Distribution]:
    """The package, if torch or every package is asked for."""
    return [TorchDistribution()] if context.name in (None, "torch") else []
