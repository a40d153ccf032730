"""Callbacks that send the metrics of runs to trackers: TensorBoard, Weights & Biases, MLflow.

All of them log the same numbers under the same grouped tags, such as `evaluation/return`, with frames as the step. Runs
that train together are logged separately.
"""

from __future__ import annotations

import numbers
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from masp.config import to_flat
from masp.environments.base import Package
from masp.errors import TrainingError
from masp.training.callbacks import Callback, RunView
from masp.training.rows import EVALUATION

TIME = ("seconds", "frames_per_second", "updates")
EPISODES = ("episodes", "return", "success", "episode_steps", "decision_steps", "macro_share", "effective_actions")
SIMILARITY = ("clusters", "effective_neighbours", "q_spread_within", "q_spread_between", "macro_lead")


def tag_of(column: str) -> str:
    """The tag of a column of the metrics: its group and its name."""
    if column in EVALUATION:
        return f"evaluation/{column.removeprefix('eval_')}"
    if column in TIME:
        return f"time/{column}"
    if column in EPISODES:
        return f"episodes/{column}"
    if column in SIMILARITY or column.startswith("similarity_"):
        return f"similarity/{column.removeprefix('similarity_')}"
    return f"learning/{column}"


def tagged(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row by tag; lists and blanks are left out, frames are the step."""
    return {
        tag_of(column): float(value)
        for column, value in row.items()
        if column != "frames" and isinstance(value, numbers.Real)
    }


def _starting(tracker: str, run: RunView, start: Callable[[], Any], hint: str = "") -> Any:
    """What `start` returns; a tracker that refuses, as one without an account does, is a mistake of usage."""
    try:
        return start()
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TrainingError(f"{run.path}: {tracker} cannot start: {reason}{hint}") from error


def label(run: RunView) -> str:
    """The name of a run in a tracker: the last two parts of its directory, such as `penalty_weight=0.1/seed-0`."""
    return "/".join(run.path.absolute().parts[-2:])


class TensorBoard(Callback):
    """Event files in `tensorboard/` of each run directory, or in `folder/PARENT/NAME` for the directory PARENT/NAME.

    All three trackers are in examples/tracking.py.
    """

    def __init__(self, folder: str | Path | None = None):
        Package("tensorboardX", "tensorboard").require_installed("TensorBoard")
        self._folder = None if folder is None else Path(folder)
        self._writers: dict[Path, Any] = {}

    def on_start(self, run: RunView) -> None:
        from tensorboardX import SummaryWriter

        folder = run.path / "tensorboard" if self._folder is None else self._folder / label(run)
        self._writers[run.path] = SummaryWriter(str(folder))

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        for tag, value in tagged(row).items():
            self._writers[run.path].add_scalar(tag, value, row["frames"])

    def close(self) -> None:
        while self._writers:
            self._writers.popitem()[1].close()


class WandB(Callback):
    """One Weights & Biases run per run; a run that is resumed is a new one there, with the same name.

    `mode` is wandb's own: `online`, `offline` (files in `wandb/` of the run directory, for `wandb sync`) or `disabled`;
    None: what the environment variable WANDB_MODE says. An example is examples/tracking.py.
    """

    def __init__(self, project: str = "masp", mode: Any = None, **options: Any):
        """`options` are further arguments of `wandb.init`."""
        Package("wandb", "wandb").require_installed("WandB")
        self._options = {"project": project, "mode": mode, "reinit": "create_new", **options}
        self._runs: dict[Path, Any] = {}

    def on_start(self, run: RunView) -> None:
        import wandb

        options = {"name": label(run), "dir": str(run.path), "config": to_flat(run.config), **self._options}
        hint = "; WANDB_MODE=offline needs no account"
        self._runs[run.path] = _starting("WandB", run, lambda: wandb.init(**options), hint)

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        self._runs[run.path].log(tagged(row), step=row["frames"])

    def on_end(self, run: RunView, summary: Mapping[str, Any] | None) -> None:
        self._runs.pop(run.path).finish(exit_code=0 if summary else 1)

    def close(self) -> None:
        while self._runs:
            self._runs.popitem()[1].finish(exit_code=1)


class MLflow(Callback):
    """One MLflow run per run; a run that is resumed is a new one there, with the same name (examples/tracking.py)."""

    def __init__(self, experiment: str = "masp", uri: str | None = None):
        """`uri` of the tracking server or store; None: what MLFLOW_TRACKING_URI says, else `mlruns` in this folder."""
        Package("mlflow", "mlflow").require_installed("MLflow")
        self._experiment = experiment
        self._uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or Path("mlruns").absolute().as_uri()
        if self._uri.startswith("file:") or "://" not in self._uri:
            # MLflow 3 refuses its own file store without this; its database store needs far more packages.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client: Any = None
        self._ids: dict[Path, str] = {}

    def on_start(self, run: RunView) -> None:
        from mlflow.tracking import MlflowClient

        if self._client is None:
            self._client = _starting("MLflow", run, lambda: MlflowClient(tracking_uri=self._uri))
        self._ids[run.path] = _starting("MLflow", run, lambda: self._new_run(label(run)))
        for name, value in to_flat(run.config).items():
            self._client.log_param(self._ids[run.path], name, value)

    def _new_run(self, name: str) -> str:
        """The id of a new run in the store."""
        stored = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if stored is None else stored.experiment_id
        return str(self._client.create_run(experiment, run_name=name).info.run_id)

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(tag, value, now, row["frames"]) for tag, value in tagged(row).items()]
        self._client.log_batch(self._ids[run.path], metrics=metrics)

    def on_end(self, run: RunView, summary: Mapping[str, Any] | None) -> None:
        self._client.set_terminated(self._ids.pop(run.path), status="FINISHED" if summary else "KILLED")

    def close(self) -> None:
        while self._ids:
            self._client.set_terminated(self._ids.popitem()[1], status="FAILED")


TRACKERS: dict[str, Callable[[], Callback]] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}
"""The trackers that `masp train --track` knows."""
