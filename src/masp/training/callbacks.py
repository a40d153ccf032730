"""Hooks into training: what a callback is, and how several are called.

A callback overrides the moments that it cares about. `on_row`, `on_evaluation` and `on_checkpoint` may return True to
stop training; everything is then saved as at the end. Runs that train together share their callbacks: each call names
its run, and training stops when a callback has asked for it in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    wrong = [type(callback).__name__ for callback in given if not isinstance(callback, Callback)]
    if wrong or given is not callbacks:
        got = f"{wrong[0]}" if wrong else f"one {type(callbacks).__name__}"
        raise UserError(f"callbacks must be a list of objects of classes that derive from masp.Callback, got {got}")
