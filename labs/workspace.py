"""The learner's own folder `cutaway-labs/`: a git repository with a package for each lab that was started.

Input: the folder, and the labs. progress.json in it says which lab is the current one, which hints were shown, and
which labs have passed.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from .catalogue import Lab, LabError, lab_of
from .notebook import notebook
from .tagged import starter

NAME = "cutaway-labs"
PROGRESS = "progress.json"
AUTHOR = ("-c", "user.name=cutaway lab", "-c", "user.email=lab@cutaway.invalid")


@dataclass(frozen=True)
class Workspace:
    """One learner's folder."""

    folder: Path

    def of(self, lab: Lab) -> Path:
        """Where the learner's package for this lab is, or would be."""
        return self.folder / lab.package

    # ---- progress

    def progress(self) -> dict[str, Any]:
        path = self.folder / PROGRESS
        if not path.is_file():
            return {"current": None, "labs": {}}
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise LabError(
                f"{path} is not JSON ({error}); delete it, and `cutaway lab check` begins anew"
            ) from error

    def about(self, lab: Lab) -> dict[str, Any]:
        """What was done about one lab: {"hints": 1, "passed": "2026-01-31"}."""
        return self.progress()["labs"].get(lab.id, {})

    def note(self, lab: Lab, **facts: Any) -> None:
        """Keep facts about a lab, which becomes the current one."""
        kept = self.progress()
        kept["current"] = lab.number
        kept["labs"][lab.id] = {**kept["labs"].get(lab.id, {}), **facts}
        (self.folder / PROGRESS).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")

    def passed(self, lab: Lab) -> None:
        if "passed" not in self.about(lab):
            self.note(lab, passed=date.today().isoformat())

    def chosen(self, number: int | None) -> Lab:
        """The lab with this number, or the current one. It has been started."""
        if number is None:
            number = self.progress()["current"]
        if number is None:
            raise LabError("no lab is started here; begin one with `cutaway lab start N`, or give --folder")
        lab = lab_of(number)
        if not self.of(lab).is_dir():
            raise LabError(
                f"there is no {lab.package}/ in {self.folder}; make it with `cutaway lab start {number}`, "
                "or give --folder"
            )
        return lab

    # ---- starting

    def start(self, lab: Lab) -> bool:
        """Make the lab's package with its starter and page. Keeps what exists. Returns whether anything was made."""
        package, made = self.of(lab), []
        package.mkdir(parents=True, exist_ok=True)
        text = starter(lab.source_text, lab.number, lab.regions)
        files = {
            "__init__.py": f'"""Lab {lab.number}. {lab.title}. Write {lab.file}; page.md says how."""\n',
            lab.file: text,
            "page.md": lab.page.read_text(encoding="utf-8"),
        }
        for extra in (*sorted(lab.folder.glob("*.svg")), *(lab.folder / name for name in lab.given)):
            files[extra.name] = extra.read_text(encoding="utf-8")
        files["notebook.ipynb"] = notebook(lab)
        for name, content in files.items():
            if not (package / name).exists():
                (package / name).write_text(content, encoding="utf-8")
                made.append(name)
        self.note(lab)
        if made:
            self._commit(f"Start lab {lab.number}: {lab.title}")
        return bool(made)

    def _commit(self, message: str) -> None:
        """Keep the starter in git, so that `git diff` shows your work. Without git the labs work all the same."""
        try:
            if not (self.folder / ".git").exists():
                (self.folder / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
                self._git("init", "--quiet")
            self._git("add", "--all")
            self._git(*AUTHOR, "commit", "--quiet", "--no-gpg-sign", "--no-verify", "--message", message)
        except (OSError, subprocess.CalledProcessError):
            pass

    def _git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)


def workspace(given: Path | None) -> Workspace:
    """The folder that was given, or the one you are in, or `cutaway-labs/` beside you."""
    if given is not None:
        return Workspace(given.resolve())
    here = Path.cwd()
    for folder in (here, here.parent):  # parent: you may be in a lab's own package
        if (folder / PROGRESS).is_file():
            return Workspace(folder)
    return Workspace(here / NAME)
