"""Hooks into training: what a callback is, and the one that stops training early.

A callback overrides the moments that it cares about. `on_row`, `on_evaluation` and `on_checkpoint` may return True to
stop training; everything is then saved as at the end. Runs that train together share their callbacks: each call names
its run, and training stops when a callback has asked for it in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masp.config import TrainConfig
from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.actions import ActionSet


@dataclass(frozen=True)
class RunView:
    """One run, as a callback sees it while it trains."""

    path: Path
    config: TrainConfig
    actions: ActionSet
    policy: Callable[[], dict[str, Any]]
    """The current parameters and similarity, as the policy file holds them."""
    info: EnvInfo
    """The description of the environment."""


class Callback:
    """Does nothing; override what you need (examples/callbacks_and_early_stop.py).

    Examples:
      >>> class StopWhenSolved(Callback):
      ...     def on_evaluation(self, run, row):
      ...         return row["eval_return"] > 0.95  # True stops training, with everything saved
      >>> StopWhenSolved().on_evaluation(None, {"eval_return": 0.5})
      False
    """

    def on_start(self, run: RunView) -> None:
        """Before the first step, or before the first after resuming."""

    def on_row(self, run: RunView, row: Mapping[str, Any]) -> bool | None:
        """After each row of the metrics."""

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> bool | None:
        """After each row that has evaluation figures."""

    def on_checkpoint(self, run: RunView, frames: int) -> bool | None:
        """After a checkpoint was handed to the writer."""

    def on_progress(self, frames: int, doing: str) -> None:
        """About every second: frames of the runs so far, and what they are doing, such as compiling or learning."""

    def on_message(self, text: str) -> None:
        """Something that a person should know, as one line."""

    def on_end(self, run: RunView, summary: Mapping[str, Any] | None) -> None:
        """When training is over; `summary` is None if it was stopped before its end."""

    def close(self) -> None:
        """Always called last, also after an error."""


def require_callbacks(callbacks: Sequence[Callback]) -> None:
    """Raise `UserError` unless this is a sequence of callbacks."""
    sequence = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    wrong = [type(callback).__name__ for callback in sequence if not isinstance(callback, Callback)]
    if wrong or sequence is not callbacks:
        got = f"{wrong[0]}" if wrong else f"one {type(callbacks).__name__}"
        raise UserError(f"callbacks must be a list of objects of classes that derive from masp.Callback, got {got}")


@dataclass
class EarlyStopping(Callback):
    """Stops at an evaluation; everything is saved as at the end of training.

    Examples:
      >>> EarlyStopping(target=0.95, patience=5)
      EarlyStopping(target=0.95, patience=5, metric='eval_return', min_improvement=0.0)
    """

    target: float | None = None
    """Stop when the metric reaches this."""
    patience: int | None = None
    """Stop after so many evaluations in a row without an improvement."""
    metric: str = "eval_return"
    """A column of the metrics that grows when the agent gets better."""
    min_improvement: float = 0.0
    """The metric must exceed its best value so far by more than this to count as an improvement."""

    _best: dict[Path, float] = field(default_factory=dict, init=False, repr=False)
    _waited: dict[Path, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.target is None and self.patience is None:
            raise UserError("EarlyStopping needs a target, or a patience in evaluations, or both")
        if self.patience is not None and self.patience < 1:
            raise UserError(f"patience must be at least 1, got {self.patience}")

    def on_start(self, run: RunView) -> None:
        self._best[run.path], self._waited[run.path] = -math.inf, 0

    def on_evaluation(self, run: RunView, row: Mapping[str, Any]) -> bool:
        if self.metric not in row:
            raise UserError(f"there is no metric {self.metric!r}; there are {', '.join(row)}")
        value = row[self.metric]
        if value is None:
            raise UserError(f"{run.config.env} has no value for the metric {self.metric}")
        if value > self._best[run.path] + self.min_improvement:
            self._best[run.path], self._waited[run.path] = value, 0
        else:
            self._waited[run.path] += 1
        reached = self.target is not None and value >= self.target
        return reached or (self.patience is not None and self._waited[run.path] >= self.patience)
