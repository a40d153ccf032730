"""The directory of one run: what is in it, and what may be done with one that exists.

config.json             the resolved configuration, and what made the run (`config_file.py`)
starts.jsonl            a line per process that wrote the run: time, host, commit, versions, kernels
actions.json            the macro file that was used
metrics.csv, .jsonl     one row per `log_every_frames`; lists, of one number per action, only in .jsonl
policy.safetensors      parameters and similarity at the last evaluation or stop, enough to play
best.safetensors        the same at the best evaluation so far
checkpoints/            everything, enough to go on: `checkpoints.py`
similarity.safetensors  bundle of macros and similarity
similarity-history.safetensors   the similarity over training time: `similarity_history.py`
usage.json              how often each action was decided on
summary.json            final figures; there only when the run is finished
.lock                   held by the process that writes the run
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from masp import json_text
from masp.config import TrainConfig, replace, to_flat
from masp.errors import ReadingWarning, UserError
from masp.json_text import read as read_json
from masp.json_text import write as write_json
from masp.macros.actions import ActionSet
from masp.training import config_file
from masp.training.checkpoints import Checkpoints
from masp.training.lock import NO_LOCKS, RunLock
from masp.training.origin import note_start

__all__ = ["MetricsWriter", "RunDir", "read_json", "read_lines", "write_json"]

CHANGEABLE = ("frames", "env_workers", "env_timeout", "env_restarts", "out")
"""Settings that may be others when a run goes on; `out`, because a run directory may move."""


class RunDir:
    """Names of the files of a run, and the small ones read and written."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.actions_file = self.path / "actions.json"
        self.starts_file = self.path / "starts.jsonl"
        self.metrics_csv = self.path / "metrics.csv"
        self.metrics_jsonl = self.path / "metrics.jsonl"
        self.policy_file = self.path / "policy.safetensors"
        self.best_file = self.path / "best.safetensors"
        self.checkpoints = Checkpoints(self.path / "checkpoints")
        self.bundle_file = self.path / "similarity.safetensors"
        self.history_file = self.path / "similarity-history.safetensors"
        self.usage_file = self.path / "usage.json"
        self.summary_file = self.path / "summary.json"
        self._lock: RunLock | None = None

    @property
    def finished(self) -> bool:
        return self.summary_file.exists()

    def open(self, config: TrainConfig, actions: ActionSet, resume: bool) -> list[str]:
        """Begin a run here, or go on with one; nobody else writes it until `close`. Returns what the user should know.

        Without `resume`, a directory with anything in it is left alone. With it, a run goes on as it began; a finished
        one goes on if it shall have more frames.
        """
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; choose another --out")
        if not resume:
            self._require_unused()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = RunLock(self.path)
        if not resume:  # again: another process may have trained here since
            self._require_unused()
        if self.checkpoints.folder.is_symlink():
            raise UserError(f"{self.checkpoints.folder} is a symbolic link, through which masp does not write")
        messages = [] if self._lock.held else [f"{self.path}: {NO_LOCKS}"]
        if resume and self.config_file.exists():
            messages += self._continue(config, actions)
        else:
            messages += [f"{self.path}: there is no run to resume; starting a new one"] if resume else []
            actions.save(self.actions_file)
        write_json(self.config_file, config_file.to_file(config))
        note_start(self.starts_file)
        self.checkpoints.folder.mkdir(exist_ok=True)
        return messages

    def close(self) -> None:
        """Let others write."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _require_unused(self) -> None:
        if self.finished:
            raise UserError(
                f"{self.path} holds a finished run; choose another --out, or extend it with --resume --frames MORE"
            )
        if self.config_file.exists():
            raise UserError(f"{self.path} holds an unfinished run; add --resume, or choose another --out")
        if self.path.exists() and any(entry.name != ".lock" for entry in self.path.iterdir()):
            raise UserError(f"{self.path} exists and is not empty; choose another --out")

    def _continue(self, config: TrainConfig, actions: ActionSet) -> list[str]:
        """Make sure that the run here can go on with `config` and `actions`."""
        before = self.read_config()
        if replace(before, **{name: getattr(config, name) for name in CHANGEABLE}) != config:
            now = to_flat(config)
            other = [
                f"{name} {json_text.shortened(value)}, now {json_text.shortened(now[name])}"
                for name, value in to_flat(before).items()
                if value != now[name] and name not in CHANGEABLE
            ]
            more = f" and {len(other) - 3} more" if len(other) > 3 else ""
            raise UserError(
                f"{self.path} was started with other settings ({'; '.join(other[:3])}{more}); give the same ones to "
                "--resume, or another --out"
            )
        if self.read_actions().sequences() != actions.sequences():
            source = config.macros or config.similarity.bundle or "the environment's own macros"
            raise UserError(f"{self.actions_file}: the run has other macros than {source} now; put the old ones back")
        messages = []
        if self.finished:
            if config.frames <= before.frames:
                raise UserError(f"{self.path} holds a finished run; --frames above {before.frames:,} extends it")
            self.summary_file.unlink()
        if config.frames != before.frames:
            messages.append(
                f"{self.path}: now {config.frames:,} frames instead of {before.frames:,}; the schedule of the "
                "importance weights ends with the new number, epsilon keeps its decay"
            )
        if not self.checkpoints.ticks():
            messages.append(f"{self.path}: there is no checkpoint yet; starting anew, earlier metrics are kept aside")
        return messages

    def set_metrics_aside(self) -> None:
        """Rename earlier metrics, if there are any, so that a run that starts anew does not replace them."""
        for path in (self.metrics_jsonl, self.metrics_csv):
            if path.exists():
                numbers = (n for n in range(1, 10_000) if not path.with_suffix(f".{n}{path.suffix}").exists())
                path.rename(path.with_suffix(f".{next(numbers)}{path.suffix}"))

    def read_config(self) -> TrainConfig:
        """The configuration of the run."""
        if not self.config_file.exists():
            raise UserError(f"{self.path} is not a run directory (it has no config.json)")
        values = read_json(self.config_file)
        return config_file.from_file(values, str(self.config_file), lambda: len(self.read_actions()))

    def read_actions(self) -> ActionSet:
        """The action set of the run."""
        return ActionSet.load(self.actions_file)

    def read_metrics(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return read_lines(self.metrics_jsonl)

    def read_summary(self) -> dict[str, Any]:
        """The final figures; empty before the run is finished."""
        if not self.finished:
            return {}
        return _require_row(read_json(self.summary_file), str(self.summary_file))


class MetricsWriter:
    """Appends rows to CSV and JSON lines."""

    def __init__(self, run: RunDir, keep_to_frames: int | None):
        """Rows after `keep_to_frames` are removed: they are newer than the checkpoint of the run."""
        kept = run.read_metrics() if keep_to_frames is not None else []
        kept = [row for row in kept if row["frames"] <= (keep_to_frames or 0)]
        json_text.replace_text(run.metrics_jsonl, "".join(json_text.dumps(row) + "\n" for row in kept))
        json_text.replace_text(run.metrics_csv, "")  # a new file, whatever had its name: no link is followed
        self._jsonl = open(run.metrics_jsonl, "a")  # noqa: SIM115 - closed by close()
        self._csv_file = open(run.metrics_csv, "w", newline="")  # noqa: SIM115
        self._csv: csv.DictWriter[str] | None = None
        for row in kept:
            self._append_csv(row)
        self.last_row: dict[str, Any] = kept[-1] if kept else {}
        self.rows = len(kept)

    @property
    def last_frames(self) -> int:
        """Frames of the last row; 0 before the first."""
        return int(self.last_row.get("frames", 0))

    def write(self, row: dict[str, Any]) -> None:
        """One row, with the operating system when this returns."""
        self.last_row = row
        self.rows += 1
        self._append_csv(row)
        self._jsonl.write(json_text.dumps(row) + "\n")
        self._jsonl.flush()

    def _append_csv(self, row: dict[str, Any]) -> None:
        figures = {name: value for name, value in row.items() if not isinstance(value, list)}
        if self._csv is None:
            self._csv = csv.DictWriter(self._csv_file, list(figures))
            self._csv.writeheader()
        self._csv.writerow(figures)
        self._csv_file.flush()

    def close(self) -> None:
        self._jsonl.close()
        self._csv_file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, without a last one that a kill has torn; none where there is no file.

    A row that cannot be used is left out, with a warning. NaN of older files is null.
    """
    text = json_text.read_bytes(path) if path.exists() else b""
    return _rows(text[: text.rfind(b"\n") + 1], lambda number: f"{path}, line {number}")


def read_more_lines(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """The rows after byte `start`, as `read_lines` reads them, and the byte after the last of them."""
    with open(path, "rb") as file:
        file.seek(start)
        text = file.read(json_text.MAX_BYTES)
    text = text[: text.rfind(b"\n") + 1]
    return _rows(text, lambda number: f"{path}, line {number} after byte {start:,}"), start + len(text)


def _rows(text: bytes, where: Callable[[int], str]) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line, where(number)))
        except UserError as error:
            warnings.warn(f"{error}; the line is left out", ReadingWarning, stacklevel=3)
    return rows


def _row(line: bytes, where: str) -> dict[str, Any]:
    return _require_row(json_text.parse(line, where, constant=lambda name: None), where)


def _require_row(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict) or type(row.get("frames")) is not int or not json_text.is_number(row["frames"]):
        raise UserError(f"{where}: not a row of metrics, which is an object with a whole number 'frames'")
    for name, value in row.items():
        parts = value if isinstance(value, list) else [value]
        if not all(part is None or isinstance(part, bool) or json_text.is_number(part) for part in parts):
            raise UserError(f"{where}: {json_text.shortened(name)} is not a number, null or a list of numbers")
    return row
