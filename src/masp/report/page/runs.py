"""Run directories as the page reads them: also while they are written, and again and again at little cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from masp import json_text
from masp.config import TrainConfig
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.training.lock import is_being_written
from masp.training.run_dir import RunDir, read_json, read_more_lines

DEEPEST = 3
"""Levels below a given folder that are searched for run directories."""
VIDEO_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".webp": "image/webp"}


@dataclass
class ReportRun:
    """One run directory; `update` reads what was appended since the last call."""

    path: Path
    config: TrainConfig
    actions: ActionSet
    made_by: dict[str, str]
    """Versions, commit and kernels, as far as the run says them; several if several processes wrote it."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """The metrics; lists of one number per action are arrays."""
    _offset: int = 0
    _file_id: tuple[int, int] = (0, 0)

    @classmethod
    def open(cls, path: Path) -> ReportRun:
        """The run at `path`, or a `UserError` that says why there is none."""
        run = RunDir(path)
        config, actions = run.read_config(), run.read_actions()
        opened = cls(path, config, actions, _made_by(run))
        opened.update()
        return opened

    def update(self) -> bool:
        """Read new rows; whether there were any. A file that was replaced, as by --resume, is read anew."""
        file = RunDir(self.path).metrics_jsonl
        try:
            status = file.stat()
        except OSError:
            return False
        file_id = (status.st_dev, status.st_ino)
        if file_id != self._file_id or status.st_size < self._offset:
            self.rows, self._offset, self._file_id = [], 0, file_id
        if status.st_size == self._offset:
            return False
        new, self._offset = read_more_lines(file, self._offset)
        self.rows += [_compact(row) for row in new]
        return bool(new)

    @property
    def frames(self) -> int:
        return int(self.rows[-1]["frames"]) if self.rows else 0

    @property
    def state(self) -> str:
        """Finished, running or stopped."""
        if RunDir(self.path).finished:
            return "finished"
        return "running" if is_being_written(self.path) else "stopped"

    @property
    def videos(self) -> list[Path]:
        """Recorded episodes in the run directory."""
        return sorted(file for file in self.path.iterdir() if file.suffix.lower() in VIDEO_TYPES)

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Frames and values of the rows that have this metric; `speed` is that since the row before."""
        if name == "speed":
            return self._speed()
        points = [(row["frames"], row[name]) for row in self.rows if isinstance(row.get(name), (int, float))]
        frames, values = zip(*points, strict=True) if points else ((), ())
        return np.array(frames, float), np.array(values, float)

    def _speed(self) -> tuple[np.ndarray, np.ndarray]:
        """Frames per second between rows. The first row, mostly compilation, is left out; so is one after a pause."""
        rows = [(row["frames"], row["seconds"]) for row in self.rows if row.get("seconds") is not None]
        frames, seconds = np.array(rows, float).reshape(-1, 2).T
        went_on = np.diff(seconds) > 0  # time begins anew where training was resumed
        return frames[1:][went_on], np.diff(frames)[went_on] / np.diff(seconds)[went_on]

    def per_action(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Frames [rows] and values [rows, A] of a metric that has one number per action."""
        rows = [row for row in self.rows if len(np.atleast_1d(row.get(name, ()))) == len(self.actions)]
        values = np.array([row[name] for row in rows], float).reshape(len(rows), len(self.actions))
        return np.array([row["frames"] for row in rows], float), values

    def last(self, name: str) -> float | None:
        """The newest value of a metric."""
        values = self.curve(name)[1]
        return float(values[-1]) if len(values) else None


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """The run directories among `paths` and in the folders among them; each once, in order."""
    run_dirs: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            raise UserError(f"{path}: there is no such folder")
        runs = [path] if _is_run(path) else _runs_below(path, DEEPEST)
        if not runs:
            raise UserError(f"{path} is not a run directory, and there is none in it (none has a config.json)")
        run_dirs += [run for run in runs if run not in run_dirs]
    return run_dirs


def _is_run(path: Path) -> bool:
    return (path / "config.json").is_file() and (path / "actions.json").is_file()


def _runs_below(path: Path, levels: int) -> list[Path]:
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    runs = []
    for folder in folders:
        if _is_run(folder):
            runs.append(folder)
        elif levels > 1:
            runs += _runs_below(folder, levels - 1)
    return runs


def _made_by(run: RunDir) -> dict[str, str]:
    """What config.json and starts.jsonl say of who wrote the run; not on which machine."""
    header = read_json(run.config_file)
    starts = [start for line in _lines(run.starts_file) if isinstance(start := _parsed(line), dict)]
    parts: dict[str, list[str]] = {name: [str(header[name])] for name in ("masp", "kernels") if header.get(name)}
    for start in starts:
        versions = start.get("versions")
        versions = versions if isinstance(versions, dict) else {}
        shown = {**{name: versions.get(name) for name in ("masp", "python", "jax")}, "commit": start.get("commit")}
        for name, value in shown.items():
            if value:
                parts[name] = [*(old for old in parts.get(name, []) if old != str(value)), str(value)]
    return {name: ", then ".join(values) for name, values in parts.items()}


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines() if file.is_file() else []


def _parsed(line: str) -> Any:
    try:
        return json_text.parse(line, "")
    except UserError:  # the rest of the page is worth showing
        return None


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    """The row with lists as arrays, which take a tenth of the memory."""
    return {
        name: np.array([np.nan if part is None else part for part in value], np.float32)
        if isinstance(value, list)
        else value
        for name, value in row.items()
    }
