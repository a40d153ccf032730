"""The directory of one run: what is in it, and what may be done with one that exists.

config.json             the resolved configuration, and what made the run (`config_file.py`)
actions.json            the macro file that was used
metrics.csv, .jsonl     one row per `log_every_frames`; lists, of one number per action, only in .jsonl
policy.safetensors      parameters and similarity, enough to play
checkpoint.safetensors  everything, enough to go on
similarity.safetensors  bundle of macros and similarity
usage.json              how often each action was decided on
summary.json            final figures; there only when the run is finished
"""

from __future__ import annotations

import csv
import json
import secrets
from pathlib import Path
from typing import Any

from masp.config import TrainConfig
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.training import config_file


class RunDir:
    """Names of the files of a run, and the small ones read and written."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.actions_file = self.path / "actions.json"
        self.metrics_csv = self.path / "metrics.csv"
        self.metrics_jsonl = self.path / "metrics.jsonl"
        self.policy_file = self.path / "policy.safetensors"
        self.checkpoint_file = self.path / "checkpoint.safetensors"
        self.bundle_file = self.path / "similarity.safetensors"
        self.usage_file = self.path / "usage.json"
        self.summary_file = self.path / "summary.json"

    @property
    def finished(self) -> bool:
        return self.summary_file.exists()

    def create(self, config: TrainConfig, actions: ActionSet) -> None:
        """Start a new run here; a directory with anything in it is left alone."""
        if self.finished:
            raise UserError(f"{self.path} holds a finished run; choose another --out")
        if self.config_file.exists():
            raise UserError(f"{self.path} holds an unfinished run; add --resume, or choose another --out")
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserError(f"{self.path} exists and is not empty; choose another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        actions.save(self.actions_file)
        write_json(self.config_file, config_file.to_file(config))

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


class MetricsWriter:
    """Appends rows to CSV and JSON lines."""

    def __init__(self, run: RunDir, keep_to_frames: int | None):
        """Rows after `keep_to_frames` came from a run that was cut off after its last checkpoint: they go."""
        kept = run.read_metrics() if keep_to_frames is not None else []
        kept = [row for row in kept if row["frames"] <= (keep_to_frames or 0)]
        replace_text(run.metrics_jsonl, "".join(json.dumps(row) + "\n" for row in kept))
        self._jsonl = open(run.metrics_jsonl, "a")  # noqa: SIM115 - closed by close()
        self._csv_file = open(run.metrics_csv, "w", newline="")  # noqa: SIM115
        self._csv: csv.DictWriter[str] | None = None
        for row in kept:
            self._append_csv(row)

    def write(self, row: dict[str, Any]) -> None:
        """One row, on disk when this returns."""
        self._append_csv(row)
        self._jsonl.write(json.dumps(row) + "\n")
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


def write_json(path: Path, data: Any) -> None:
    """Replace the file whole."""
    replace_text(path, json.dumps(data, indent=1) + "\n")


def replace_text(path: Path, text: str) -> None:
    """Replace the file whole; of several processes that do so at once, one wins."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    partial.write_text(text)
    partial.replace(path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, without a last one that a kill has torn; none where there is no file."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def read_json(path: Path) -> Any:
    """Parsed JSON, or a `UserError` that names the file and the place."""
    try:
        return json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: broken JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
