"""torch.hub without a network: weights from the local cache, models from a local folder or an installed torchvision.

Input: TORCH_HOME, or ~/.cache/torch, where torch keeps what it downloads. Nothing is downloaded: a file that is not
there is an error that names the file, the folder and the address to fetch it from.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

from stage0_eager.torch_archive_reading import load as load_file
from stage_contracts.messages import near

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # in "resnet50-0676ba61.pth": how the file's digest begins
VISION = "pytorch/vision"  # the one repository whose models come from a library that is installed here
_folder: str | None = None


def get_dir() -> str:
    """The folder of what was downloaded: set_dir's, else $TORCH_HOME/hub, else ~/.cache/torch/hub."""
    return _folder or str(Path(_get_torch_home(), "hub"))


def set_dir(d: str | os.PathLike) -> None:
    """Choose the folder that get_dir gives."""
    global _folder
    _folder = str(Path(d).expanduser())


def _get_torch_home() -> str:
    found = os.getenv("TORCH_HOME") or Path(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return str(Path(found).expanduser())


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """The weights of `url`, from the cache: the file of that name in `model_dir` (get_dir()/checkpoints).

    Raises FileNotFoundError, with the file, its folder and `url`, if it is not there: nothing is downloaded.
    """
    name = file_name or Path(urlparse(url).path).name
    path = Path(model_dir or Path(get_dir(), "checkpoints"), name)
    if not path.exists():
        message = (
            f"found no weights {name} in the folder {path.parent}, and Cutaway downloads nothing; "
            f"fetch {url} yourself and put it there"
        )
        raise FileNotFoundError(errno.ENOENT, message, str(path))
    return load_file(path, map_location=map_location)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Raises RuntimeError: nothing is downloaded."""
    raise RuntimeError(f"Cutaway downloads nothing; fetch {url} yourself and put it at {dst}")


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The model that the entry point `model` of a folder's hubconf.py makes, called with the arguments given.

    source "local": `repo_or_dir` is a folder. source "github": only "pytorch/vision", whose models the torchvision
    that is installed makes; any other raises RuntimeError. ValueError for another source or an unknown model.
    """
    words = {k: v for k, v in kwargs.items() if k not in _FOR_DOWNLOADS}
    return _entry(_entries(repo_or_dir, source), model, repo_or_dir)(*args, **words)


def list(github: str, *, source: str = "github", **options: Any) -> Any:
    """The names of a repository's or folder's entry points."""
    found = _entries(github, source)
    return [name for name, value in vars(found).items() if callable(value) and not name.startswith("_")]


def help(github: str, model: str, *, source: str = "github", **options: Any) -> str | None:
    """The docstring of an entry point."""
    return _entry(_entries(github, source), model, github).__doc__


_FOR_DOWNLOADS = {"trust_repo", "force_reload", "verbose", "skip_validation"}


def _entries(repository: str, source: str) -> ModuleType:
    if source not in ("github", "local"):
        raise ValueError(f'hub.load expects the source "github" or "local", but got {source!r}')
    if source == "local":
        return _hubconf(Path(repository).expanduser())
    if repository.partition(":")[0] != VISION:
        raise RuntimeError(
            f"Cutaway downloads nothing, so it cannot load {repository!r} from GitHub; clone it and give the folder "
            f'with source="local". ("{VISION}" is there if torchvision is installed.)'
        )
    try:
        return importlib.import_module("torchvision.models")
    except ModuleNotFoundError as error:
        raise RuntimeError(
            f"the models of {repository!r} come from torchvision; install it: {error}"
        ) from error


def _hubconf(folder: Path) -> ModuleType:
    path = folder / "hubconf.py"
    if not path.exists():
        raise FileNotFoundError(f"found no hubconf.py in {folder}; hub.load expects a folder that has one")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


def _entry(entries: ModuleType, model: str, repository: str) -> Any:
    found = getattr(entries, model, None)
    if not callable(found):
        known = near(model, [name for name in dir(entries) if name[0] != "_"])
        hint = f"; the nearest it has is {known}" if known else ""
        raise ValueError(f"{repository} has no entry point {model!r}{hint}")
    return found


class tqdm:
    """A progress bar that shows nothing, as torch.hub has it where the package tqdm is missing."""

    def __init__(self, iterable: Any = (), *args: Any, **options: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Any:
        return iter(self.iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def update(self, n: int) -> None:
        pass

    set_description = close = update


PATHS: dict[str, dict[str, Any]] = {
    "torch.hub": {
        name: globals()[name]
        for name in "HASH_REGEX _get_torch_home download_url_to_file get_dir help list load load_state_dict_from_url "
        "set_dir tqdm urlparse".split()
    },
    "torch.utils.model_zoo": {"load_url": load_state_dict_from_url, "tqdm": tqdm},
}
