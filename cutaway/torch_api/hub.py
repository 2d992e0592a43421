"""torch.hub of local folders: models that a folder's hubconf.py makes. Nothing is downloaded.

Input: a folder with a hubconf.py, and the name of a function in it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cutaway.subjects import SUBJECTS


def _hubconf(folder: Any, source: str) -> Any:
    if source != "local":
        raise NotImplementedError(f"torch.hub: {SUBJECTS['hub']}; a local folder is read with source='local'")
    path = Path(folder) / "hubconf.py"
    if not path.is_file():
        raise FileNotFoundError(f"torch.hub: {folder} has no hubconf.py")
    spec: Any = importlib.util.spec_from_file_location("hubconf", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hub_load(repo_or_dir: Any, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the function `model` of a local folder's hubconf.py makes. Raises NotImplementedError for a download."""
    options = {
        k: v
        for k, v in kwargs.items()
        if k not in ("trust_repo", "force_reload", "verbose", "skip_validation")
    }
    return getattr(_hubconf(repo_or_dir, source), model)(*args, **options)


def hub_list(github: Any, *args: Any, source: str = "github", **options: Any) -> list[str]:
    """The names of the models that a local folder's hubconf.py has."""
    found = vars(_hubconf(github, source))
    return [name for name, value in found.items() if callable(value) and name[0] != "_"]


def hub_help(github: Any, model: str, *args: Any, source: str = "github", **options: Any) -> str | None:
    return getattr(_hubconf(github, source), model).__doc__


HUB = {"load": hub_load, "list": hub_list, "help": hub_help}
